module @jit_transformer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<48xf32> loc("b_down"), %arg1: tensor<96xf32> loc("b_up"), %arg2: tensor<128x48xf32> loc("codes"), %arg3: tensor<48xf32> loc("ln1_b"), %arg4: tensor<48xf32> loc("ln1_g"), %arg5: tensor<48xf32> loc("ln2_b"), %arg6: tensor<48xf32> loc("ln2_g"), %arg7: tensor<48xf32> loc("ln3_b"), %arg8: tensor<48xf32> loc("ln3_g"), %arg9: tensor<96x48xf32> loc("w_down"), %arg10: tensor<48x128xf32> loc("w_out"), %arg11: tensor<48x96xf32> loc("w_up"), %arg12: tensor<48x48xf32> loc("wk"), %arg13: tensor<48x48xf32> loc("wo"), %arg14: tensor<48x48xf32> loc("wq"), %arg15: tensor<48x48xf32> loc("wv"), %arg16: tensor<32xui8> loc("prompt")) -> (tensor<32x128xf32> {jax.result_info = "result[0]"}, tensor<32xui8> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.iota dim = 0 : tensor<32xf32>
    %1 = stablehlo.convert %arg16 : (tensor<32xui8>) -> tensor<32xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %3 = stablehlo.compare LT, %1, %2, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %c_0 = stablehlo.constant dense<128> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %5 = stablehlo.add %1, %4 : tensor<32xi32>
    %6 = stablehlo.select %3, %5, %1 : tensor<32xi1>, tensor<32xi32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %8 = "stablehlo.gather"(%arg2, %7) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 48>}> : (tensor<128x48xf32>, tensor<32x1xi32>) -> tensor<32x48xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_1 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<32x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<32x48xf32>
    %15 = stablehlo.multiply %14, %14 : tensor<32x48xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_3 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %19 = stablehlo.divide %17, %18 : tensor<32x1xf32>
    %20 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %21 = stablehlo.subtract %8, %20 : tensor<32x48xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %23 = stablehlo.add %19, %22 : tensor<32x1xf32>
    %24 = stablehlo.rsqrt %23 : tensor<32x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %26 = stablehlo.multiply %21, %25 : tensor<32x48xf32>
    %27 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %29 = stablehlo.multiply %26, %28 : tensor<32x48xf32>
    %30 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %32 = stablehlo.add %29, %31 : tensor<32x48xf32>
    %33 = stablehlo.dot_general %32, %arg14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %34 = stablehlo.reshape %33 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %35 = stablehlo.dot_general %32, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %36 = stablehlo.reshape %35 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %37 = stablehlo.dot_general %32, %arg15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %38 = stablehlo.reshape %37 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %39 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<32xf32>) -> tensor<32x1x1xf32>
    %40 = stablehlo.iota dim = 0 : tensor<8xi32>
    %41 = stablehlo.negate %40 : tensor<8xi32>
    %42 = stablehlo.convert %41 : (tensor<8xi32>) -> tensor<8xf32>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %44 = stablehlo.divide %42, %43 : tensor<8xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+03> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %46 = stablehlo.power %45, %44 : tensor<8xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %48 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2] : (tensor<32x1x1xf32>) -> tensor<32x1x8xf32>
    %49 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<32x1x8xf32>
    %50 = stablehlo.multiply %48, %49 : tensor<32x1x8xf32>
    %51 = stablehlo.slice %34 [0:32, 0:3, 0:8] : (tensor<32x3x16xf32>) -> tensor<32x3x8xf32>
    %52 = stablehlo.slice %34 [0:32, 0:3, 8:16] : (tensor<32x3x16xf32>) -> tensor<32x3x8xf32>
    %53 = stablehlo.cosine %50 : tensor<32x1x8xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %55 = stablehlo.multiply %51, %54 : tensor<32x3x8xf32>
    %56 = stablehlo.sine %50 : tensor<32x1x8xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %58 = stablehlo.multiply %52, %57 : tensor<32x3x8xf32>
    %59 = stablehlo.subtract %55, %58 : tensor<32x3x8xf32>
    %60 = stablehlo.sine %50 : tensor<32x1x8xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %62 = stablehlo.multiply %51, %61 : tensor<32x3x8xf32>
    %63 = stablehlo.cosine %50 : tensor<32x1x8xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %65 = stablehlo.multiply %52, %64 : tensor<32x3x8xf32>
    %66 = stablehlo.add %62, %65 : tensor<32x3x8xf32>
    %67 = stablehlo.concatenate %59, %66, dim = 2 : (tensor<32x3x8xf32>, tensor<32x3x8xf32>) -> tensor<32x3x16xf32>
    %68 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<32xf32>) -> tensor<32x1x1xf32>
    %69 = stablehlo.iota dim = 0 : tensor<8xi32>
    %70 = stablehlo.negate %69 : tensor<8xi32>
    %71 = stablehlo.convert %70 : (tensor<8xi32>) -> tensor<8xf32>
    %cst_7 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %73 = stablehlo.divide %71, %72 : tensor<8xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+03> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %75 = stablehlo.power %74, %73 : tensor<8xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %77 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<32x1x1xf32>) -> tensor<32x1x8xf32>
    %78 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<32x1x8xf32>
    %79 = stablehlo.multiply %77, %78 : tensor<32x1x8xf32>
    %80 = stablehlo.slice %36 [0:32, 0:3, 0:8] : (tensor<32x3x16xf32>) -> tensor<32x3x8xf32>
    %81 = stablehlo.slice %36 [0:32, 0:3, 8:16] : (tensor<32x3x16xf32>) -> tensor<32x3x8xf32>
    %82 = stablehlo.cosine %79 : tensor<32x1x8xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %84 = stablehlo.multiply %80, %83 : tensor<32x3x8xf32>
    %85 = stablehlo.sine %79 : tensor<32x1x8xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %87 = stablehlo.multiply %81, %86 : tensor<32x3x8xf32>
    %88 = stablehlo.subtract %84, %87 : tensor<32x3x8xf32>
    %89 = stablehlo.sine %79 : tensor<32x1x8xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %91 = stablehlo.multiply %80, %90 : tensor<32x3x8xf32>
    %92 = stablehlo.cosine %79 : tensor<32x1x8xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<32x1x8xf32>) -> tensor<32x3x8xf32>
    %94 = stablehlo.multiply %81, %93 : tensor<32x3x8xf32>
    %95 = stablehlo.add %91, %94 : tensor<32x3x8xf32>
    %96 = stablehlo.concatenate %88, %95, dim = 2 : (tensor<32x3x8xf32>, tensor<32x3x8xf32>) -> tensor<32x3x16xf32>
    %c_9 = stablehlo.constant dense<true> : tensor<i1>
    %97 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %98 = call @tril(%97) : (tensor<32x32xi1>) -> tensor<32x32xi1>
    %99 = stablehlo.dot_general %67, %96, batching_dims = [1] x [1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x3x16xf32>, tensor<32x3x16xf32>) -> tensor<3x32x32xf32>
    %cst_10 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x32x32xf32>
    %101 = stablehlo.divide %99, %100 : tensor<3x32x32xf32>
    %cst_11 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %102 = call @_where(%98, %101, %cst_11) : (tensor<32x32xi1>, tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32x32xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_12) applies stablehlo.maximum across dimensions = [2] : (tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<3x32xf32>
    %105 = stablehlo.maximum %104, %103 : tensor<3x32xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1] : (tensor<3x32xf32>) -> tensor<3x32x1xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2] : (tensor<3x32x1xf32>) -> tensor<3x32x32xf32>
    %108 = stablehlo.subtract %102, %107 : tensor<3x32x32xf32>
    %109 = stablehlo.exponential %108 : tensor<3x32x32xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.reduce(%109 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1] : (tensor<3x32xf32>) -> tensor<3x32x1xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<3x32x1xf32>) -> tensor<3x32x32xf32>
    %113 = stablehlo.divide %109, %112 : tensor<3x32x32xf32>
    %114 = stablehlo.dot_general %38, %113, batching_dims = [1] x [0], contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<32x3x16xf32>, tensor<3x32x32xf32>) -> tensor<3x16x32xf32>
    %115 = stablehlo.transpose %114, dims = [2, 0, 1] : (tensor<3x16x32xf32>) -> tensor<32x3x16xf32>
    %116 = stablehlo.reshape %115 : (tensor<32x3x16xf32>) -> tensor<32x48xf32>
    %117 = stablehlo.dot_general %116, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %118 = stablehlo.add %8, %117 : tensor<32x48xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%118 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_16 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %122 = stablehlo.divide %120, %121 : tensor<32x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %124 = stablehlo.subtract %118, %123 : tensor<32x48xf32>
    %125 = stablehlo.multiply %124, %124 : tensor<32x48xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %126 = stablehlo.reduce(%125 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_18 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %129 = stablehlo.divide %127, %128 : tensor<32x1xf32>
    %130 = stablehlo.broadcast_in_dim %122, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %131 = stablehlo.subtract %118, %130 : tensor<32x48xf32>
    %cst_19 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %133 = stablehlo.add %129, %132 : tensor<32x1xf32>
    %134 = stablehlo.rsqrt %133 : tensor<32x1xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %136 = stablehlo.multiply %131, %135 : tensor<32x48xf32>
    %137 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %139 = stablehlo.multiply %136, %138 : tensor<32x48xf32>
    %140 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %142 = stablehlo.add %139, %141 : tensor<32x48xf32>
    %143 = stablehlo.dot_general %142, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x96xf32>) -> tensor<32x96xf32>
    %144 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<96xf32>) -> tensor<1x96xf32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [0, 1] : (tensor<1x96xf32>) -> tensor<32x96xf32>
    %146 = stablehlo.add %143, %145 : tensor<32x96xf32>
    %147 = stablehlo.multiply %146, %146 : tensor<32x96xf32>
    %148 = stablehlo.multiply %147, %146 : tensor<32x96xf32>
    %cst_20 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %149 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %150 = stablehlo.multiply %149, %148 : tensor<32x96xf32>
    %151 = stablehlo.add %146, %150 : tensor<32x96xf32>
    %cst_21 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %153 = stablehlo.multiply %152, %151 : tensor<32x96xf32>
    %154 = stablehlo.tanh %153 : tensor<32x96xf32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %156 = stablehlo.add %155, %154 : tensor<32x96xf32>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %157 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %158 = stablehlo.multiply %157, %156 : tensor<32x96xf32>
    %159 = stablehlo.multiply %146, %158 : tensor<32x96xf32>
    %160 = stablehlo.dot_general %159, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x96xf32>, tensor<96x48xf32>) -> tensor<32x48xf32>
    %161 = stablehlo.add %118, %160 : tensor<32x48xf32>
    %162 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %164 = stablehlo.add %161, %163 : tensor<32x48xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.reduce(%164 init: %cst_24) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_25 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %168 = stablehlo.divide %166, %167 : tensor<32x1xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %170 = stablehlo.subtract %164, %169 : tensor<32x48xf32>
    %171 = stablehlo.multiply %170, %170 : tensor<32x48xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.reduce(%171 init: %cst_26) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %173 = stablehlo.broadcast_in_dim %172, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_27 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %175 = stablehlo.divide %173, %174 : tensor<32x1xf32>
    %176 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %177 = stablehlo.subtract %164, %176 : tensor<32x48xf32>
    %cst_28 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %178 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %179 = stablehlo.add %175, %178 : tensor<32x1xf32>
    %180 = stablehlo.rsqrt %179 : tensor<32x1xf32>
    %181 = stablehlo.broadcast_in_dim %180, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %182 = stablehlo.multiply %177, %181 : tensor<32x48xf32>
    %183 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %185 = stablehlo.multiply %182, %184 : tensor<32x48xf32>
    %186 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %187 = stablehlo.broadcast_in_dim %186, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %188 = stablehlo.add %185, %187 : tensor<32x48xf32>
    %189 = stablehlo.dot_general %188, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x128xf32>) -> tensor<32x128xf32>
    %190 = call @argmax(%189) : (tensor<32x128xf32>) -> tensor<32xi32>
    %191 = stablehlo.convert %190 : (tensor<32xi32>) -> tensor<32xui8>
    return %189, %191 : tensor<32x128xf32>, tensor<32xui8>
  }
  func.func private @tril(%arg0: tensor<32x32xi1>) -> tensor<32x32xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<32x32xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32x32xi32>
    %2 = stablehlo.add %0, %1 : tensor<32x32xi32>
    %3 = stablehlo.iota dim = 1 : tensor<32x32xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<32x32xi1>, tensor<32x32xi1>
    return %6 : tensor<32x32xi1>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<3x32x32xf32>, %arg2: tensor<f32>) -> tensor<3x32x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<32x32xi1>) -> tensor<3x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<3x32x32xi1>, tensor<3x32x32xf32>
    return %3 : tensor<3x32x32xf32>
  }
  func.func private @argmax(%arg0: tensor<32x128xf32>) -> tensor<32xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<32x128xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<32x128xf32>, tensor<32x128xi32>, tensor<f32>, tensor<i32>) -> (tensor<32xf32>, tensor<32xi32>)
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
    return %1#1 : tensor<32xi32>
  }
}
