module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<48xf32> loc("b_down"), %arg1: tensor<96xf32> loc("b_up"), %arg2: tensor<128x48xf32> loc("codes"), %arg3: tensor<48xf32> loc("ln1_b"), %arg4: tensor<48xf32> loc("ln1_g"), %arg5: tensor<48xf32> loc("ln2_b"), %arg6: tensor<48xf32> loc("ln2_g"), %arg7: tensor<48xf32> loc("ln3_b"), %arg8: tensor<48xf32> loc("ln3_g"), %arg9: tensor<96x48xf32> loc("w_down"), %arg10: tensor<48x128xf32> loc("w_out"), %arg11: tensor<48x96xf32> loc("w_up"), %arg12: tensor<48x48xf32> loc("wk"), %arg13: tensor<48x48xf32> loc("wo"), %arg14: tensor<48x48xf32> loc("wq"), %arg15: tensor<48x48xf32> loc("wv"), %arg16: tensor<i32> {tf.aliasing_output = 0 : i32} loc("at"), %arg17: tensor<32x3x16xf32> {tf.aliasing_output = 1 : i32} loc("keys"), %arg18: tensor<32x3x16xf32> {tf.aliasing_output = 2 : i32} loc("values"), %arg19: tensor<1xui8> loc("letter")) -> (tensor<i32> {jax.result_info = "result[0]['at']"}, tensor<32x3x16xf32> {jax.result_info = "result[0]['keys']"}, tensor<32x3x16xf32> {jax.result_info = "result[0]['values']"}, tensor<1xui8> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg16 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.convert %arg19 : (tensor<1xui8>) -> tensor<1xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %4 = stablehlo.compare LT, %2, %3, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %c_0 = stablehlo.constant dense<128> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.add %2, %5 : tensor<1xi32>
    %7 = stablehlo.select %4, %6, %2 : tensor<1xi1>, tensor<1xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = "stablehlo.gather"(%arg2, %8) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 48>}> : (tensor<128x48xf32>, tensor<1x1xi32>) -> tensor<1x48xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_1 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %15 = stablehlo.subtract %9, %14 : tensor<1x48xf32>
    %16 = stablehlo.multiply %15, %15 : tensor<1x48xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_3 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %20 = stablehlo.divide %18, %19 : tensor<1x1xf32>
    %21 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %22 = stablehlo.subtract %9, %21 : tensor<1x48xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %24 = stablehlo.add %20, %23 : tensor<1x1xf32>
    %25 = stablehlo.rsqrt %24 : tensor<1x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %27 = stablehlo.multiply %22, %26 : tensor<1x48xf32>
    %28 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<1x48xf32>
    %30 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %31 = stablehlo.add %29, %30 : tensor<1x48xf32>
    %32 = stablehlo.dot_general %31, %arg14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x48xf32>) -> tensor<1x48xf32>
    %33 = stablehlo.reshape %32 : (tensor<1x48xf32>) -> tensor<1x3x16xf32>
    %34 = stablehlo.dot_general %31, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x48xf32>) -> tensor<1x48xf32>
    %35 = stablehlo.reshape %34 : (tensor<1x48xf32>) -> tensor<1x3x16xf32>
    %36 = stablehlo.dot_general %31, %arg15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x48xf32>) -> tensor<1x48xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x48xf32>) -> tensor<1x3x16xf32>
    %38 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1xf32>) -> tensor<1x1x1xf32>
    %39 = stablehlo.iota dim = 0 : tensor<8xi32>
    %40 = stablehlo.negate %39 : tensor<8xi32>
    %41 = stablehlo.convert %40 : (tensor<8xi32>) -> tensor<8xf32>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %43 = stablehlo.divide %41, %42 : tensor<8xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+03> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %45 = stablehlo.power %44, %43 : tensor<8xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %47 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x8xf32>
    %48 = stablehlo.multiply %47, %46 : tensor<1x1x8xf32>
    %49 = stablehlo.slice %33 [0:1, 0:3, 0:8] : (tensor<1x3x16xf32>) -> tensor<1x3x8xf32>
    %50 = stablehlo.slice %33 [0:1, 0:3, 8:16] : (tensor<1x3x16xf32>) -> tensor<1x3x8xf32>
    %51 = stablehlo.cosine %48 : tensor<1x1x8xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %53 = stablehlo.multiply %49, %52 : tensor<1x3x8xf32>
    %54 = stablehlo.sine %48 : tensor<1x1x8xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %56 = stablehlo.multiply %50, %55 : tensor<1x3x8xf32>
    %57 = stablehlo.subtract %53, %56 : tensor<1x3x8xf32>
    %58 = stablehlo.sine %48 : tensor<1x1x8xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %60 = stablehlo.multiply %49, %59 : tensor<1x3x8xf32>
    %61 = stablehlo.cosine %48 : tensor<1x1x8xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %63 = stablehlo.multiply %50, %62 : tensor<1x3x8xf32>
    %64 = stablehlo.add %60, %63 : tensor<1x3x8xf32>
    %65 = stablehlo.concatenate %57, %64, dim = 2 : (tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> tensor<1x3x16xf32>
    %66 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1xf32>) -> tensor<1x1x1xf32>
    %67 = stablehlo.iota dim = 0 : tensor<8xi32>
    %68 = stablehlo.negate %67 : tensor<8xi32>
    %69 = stablehlo.convert %68 : (tensor<8xi32>) -> tensor<8xf32>
    %cst_7 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %71 = stablehlo.divide %69, %70 : tensor<8xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+03> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %73 = stablehlo.power %72, %71 : tensor<8xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %75 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x8xf32>
    %76 = stablehlo.multiply %75, %74 : tensor<1x1x8xf32>
    %77 = stablehlo.slice %35 [0:1, 0:3, 0:8] : (tensor<1x3x16xf32>) -> tensor<1x3x8xf32>
    %78 = stablehlo.slice %35 [0:1, 0:3, 8:16] : (tensor<1x3x16xf32>) -> tensor<1x3x8xf32>
    %79 = stablehlo.cosine %76 : tensor<1x1x8xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %81 = stablehlo.multiply %77, %80 : tensor<1x3x8xf32>
    %82 = stablehlo.sine %76 : tensor<1x1x8xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %84 = stablehlo.multiply %78, %83 : tensor<1x3x8xf32>
    %85 = stablehlo.subtract %81, %84 : tensor<1x3x8xf32>
    %86 = stablehlo.sine %76 : tensor<1x1x8xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %88 = stablehlo.multiply %77, %87 : tensor<1x3x8xf32>
    %89 = stablehlo.cosine %76 : tensor<1x1x8xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
    %91 = stablehlo.multiply %78, %90 : tensor<1x3x8xf32>
    %92 = stablehlo.add %88, %91 : tensor<1x3x8xf32>
    %93 = stablehlo.concatenate %85, %92, dim = 2 : (tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> tensor<1x3x16xf32>
    %c_9 = stablehlo.constant dense<32> : tensor<i32>
    %94 = call @remainder(%arg16, %c_9) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %95 = stablehlo.reshape %93 : (tensor<1x3x16xf32>) -> tensor<3x16xf32>
    %96 = call @dynamic_update_index_in_dim(%arg17, %95, %94) : (tensor<32x3x16xf32>, tensor<3x16xf32>, tensor<i32>) -> tensor<32x3x16xf32>
    %97 = stablehlo.reshape %37 : (tensor<1x3x16xf32>) -> tensor<3x16xf32>
    %98 = call @dynamic_update_index_in_dim(%arg18, %97, %94) : (tensor<32x3x16xf32>, tensor<3x16xf32>, tensor<i32>) -> tensor<32x3x16xf32>
    %99 = stablehlo.iota dim = 0 : tensor<32xi32>
    %100 = stablehlo.broadcast_in_dim %arg16, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %101 = stablehlo.compare LE, %99, %100, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %102 = stablehlo.broadcast_in_dim %101, dims = [1] : (tensor<32xi1>) -> tensor<1x32xi1>
    %103 = stablehlo.dot_general %65, %96, batching_dims = [1] x [1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x3x16xf32>, tensor<32x3x16xf32>) -> tensor<3x1x32xf32>
    %cst_10 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x1x32xf32>
    %105 = stablehlo.divide %103, %104 : tensor<3x1x32xf32>
    %cst_11 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %106 = call @_where_0(%102, %105, %cst_11) : (tensor<1x32xi1>, tensor<3x1x32xf32>, tensor<f32>) -> tensor<3x1x32xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %107 = stablehlo.reduce(%106 init: %cst_12) applies stablehlo.maximum across dimensions = [2] : (tensor<3x1x32xf32>, tensor<f32>) -> tensor<3x1xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %109 = stablehlo.maximum %108, %107 : tensor<3x1xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x1x1xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<3x1x1xf32>) -> tensor<3x1x32xf32>
    %112 = stablehlo.subtract %106, %111 : tensor<3x1x32xf32>
    %113 = stablehlo.exponential %112 : tensor<3x1x32xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<3x1x32xf32>, tensor<f32>) -> tensor<3x1xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x1x1xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2] : (tensor<3x1x1xf32>) -> tensor<3x1x32xf32>
    %117 = stablehlo.divide %113, %116 : tensor<3x1x32xf32>
    %118 = stablehlo.dot_general %98, %117, batching_dims = [1] x [0], contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x3x16xf32>, tensor<3x1x32xf32>) -> tensor<3x16x1xf32>
    %119 = stablehlo.transpose %118, dims = [2, 0, 1] : (tensor<3x16x1xf32>) -> tensor<1x3x16xf32>
    %120 = stablehlo.reshape %119 : (tensor<1x3x16xf32>) -> tensor<1x48xf32>
    %121 = stablehlo.dot_general %120, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x48xf32>) -> tensor<1x48xf32>
    %122 = stablehlo.add %9, %121 : tensor<1x48xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %123 = stablehlo.reduce(%122 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %124 = stablehlo.broadcast_in_dim %123, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_16 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %126 = stablehlo.divide %124, %125 : tensor<1x1xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %128 = stablehlo.subtract %122, %127 : tensor<1x48xf32>
    %129 = stablehlo.multiply %128, %128 : tensor<1x48xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %130 = stablehlo.reduce(%129 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_18 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %133 = stablehlo.divide %131, %132 : tensor<1x1xf32>
    %134 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %135 = stablehlo.subtract %122, %134 : tensor<1x48xf32>
    %cst_19 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %137 = stablehlo.add %133, %136 : tensor<1x1xf32>
    %138 = stablehlo.rsqrt %137 : tensor<1x1xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %140 = stablehlo.multiply %135, %139 : tensor<1x48xf32>
    %141 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %142 = stablehlo.multiply %140, %141 : tensor<1x48xf32>
    %143 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %144 = stablehlo.add %142, %143 : tensor<1x48xf32>
    %145 = stablehlo.dot_general %144, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x96xf32>) -> tensor<1x96xf32>
    %146 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<96xf32>) -> tensor<1x96xf32>
    %147 = stablehlo.add %145, %146 : tensor<1x96xf32>
    %148 = stablehlo.multiply %147, %147 : tensor<1x96xf32>
    %149 = stablehlo.multiply %148, %147 : tensor<1x96xf32>
    %cst_20 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<1x96xf32>
    %151 = stablehlo.multiply %150, %149 : tensor<1x96xf32>
    %152 = stablehlo.add %147, %151 : tensor<1x96xf32>
    %cst_21 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<1x96xf32>
    %154 = stablehlo.multiply %153, %152 : tensor<1x96xf32>
    %155 = stablehlo.tanh %154 : tensor<1x96xf32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1x96xf32>
    %157 = stablehlo.add %156, %155 : tensor<1x96xf32>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1x96xf32>
    %159 = stablehlo.multiply %158, %157 : tensor<1x96xf32>
    %160 = stablehlo.multiply %147, %159 : tensor<1x96xf32>
    %161 = stablehlo.dot_general %160, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x96xf32>, tensor<96x48xf32>) -> tensor<1x48xf32>
    %162 = stablehlo.add %122, %161 : tensor<1x48xf32>
    %163 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %164 = stablehlo.add %162, %163 : tensor<1x48xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.reduce(%164 init: %cst_24) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_25 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %168 = stablehlo.divide %166, %167 : tensor<1x1xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %170 = stablehlo.subtract %164, %169 : tensor<1x48xf32>
    %171 = stablehlo.multiply %170, %170 : tensor<1x48xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.reduce(%171 init: %cst_26) applies stablehlo.add across dimensions = [1] : (tensor<1x48xf32>, tensor<f32>) -> tensor<1xf32>
    %173 = stablehlo.broadcast_in_dim %172, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %cst_27 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %175 = stablehlo.divide %173, %174 : tensor<1x1xf32>
    %176 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %177 = stablehlo.subtract %164, %176 : tensor<1x48xf32>
    %cst_28 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %178 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %179 = stablehlo.add %175, %178 : tensor<1x1xf32>
    %180 = stablehlo.rsqrt %179 : tensor<1x1xf32>
    %181 = stablehlo.broadcast_in_dim %180, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x48xf32>
    %182 = stablehlo.multiply %177, %181 : tensor<1x48xf32>
    %183 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %184 = stablehlo.multiply %182, %183 : tensor<1x48xf32>
    %185 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %186 = stablehlo.add %184, %185 : tensor<1x48xf32>
    %187 = stablehlo.dot_general %186, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x48xf32>, tensor<48x128xf32>) -> tensor<1x128xf32>
    %c_29 = stablehlo.constant dense<1> : tensor<i32>
    %188 = stablehlo.add %arg16, %c_29 : tensor<i32>
    %189 = call @argmax(%187) : (tensor<1x128xf32>) -> tensor<1xi32>
    %190 = stablehlo.convert %189 : (tensor<1xi32>) -> tensor<1xui8>
    return %188, %96, %98, %190 : tensor<i32>, tensor<32x3x16xf32>, tensor<32x3x16xf32>, tensor<1xui8>
  }
  func.func private @remainder(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.remainder %arg0, %2 : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare NE, %3, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %3, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.compare NE, %5, %6, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %8 = stablehlo.and %7, %4 : tensor<i1>
    %9 = stablehlo.add %3, %2 : tensor<i32>
    %10 = stablehlo.select %8, %9, %3 : tensor<i1>, tensor<i32>
    return %10 : tensor<i32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<32x3x16xf32>, %arg1: tensor<3x16xf32>, %arg2: tensor<i32>) -> tensor<32x3x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<3x16xf32>) -> tensor<1x3x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare LT, %arg2, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<32> : tensor<i32>
    %2 = stablehlo.add %arg2, %c_0 : tensor<i32>
    %3 = stablehlo.select %1, %2, %arg2 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.dynamic_update_slice %arg0, %0, %3, %c_1, %c_2 : (tensor<32x3x16xf32>, tensor<1x3x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<32x3x16xf32>
    return %4 : tensor<32x3x16xf32>
  }
  func.func private @_where_0(%arg0: tensor<1x32xi1>, %arg1: tensor<3x1x32xf32>, %arg2: tensor<f32>) -> tensor<3x1x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<1x32xi1>) -> tensor<3x1x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x1x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<3x1x32xi1>, tensor<3x1x32xf32>
    return %3 : tensor<3x1x32xf32>
  }
  func.func private @argmax(%arg0: tensor<1x128xf32>) -> tensor<1xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<1x128xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<1x128xf32>, tensor<1x128xi32>, tensor<f32>, tensor<i32>) -> (tensor<1xf32>, tensor<1xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<1xi32>
  }
}
