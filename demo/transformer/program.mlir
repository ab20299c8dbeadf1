module @jit_transformer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128x48xf32> loc("codes"), %arg1: tensor<32x48xf32> loc("places"), %arg2: tensor<48xf32> loc("ln1_g"), %arg3: tensor<48xf32> loc("ln1_b"), %arg4: tensor<48x48xf32> loc("wq"), %arg5: tensor<48x48xf32> loc("wk"), %arg6: tensor<48x48xf32> loc("wv"), %arg7: tensor<48x48xf32> loc("wo"), %arg8: tensor<48xf32> loc("ln2_g"), %arg9: tensor<48xf32> loc("ln2_b"), %arg10: tensor<48x96xf32> loc("w_up"), %arg11: tensor<96xf32> loc("b_up"), %arg12: tensor<96x48xf32> loc("w_down"), %arg13: tensor<48xf32> loc("b_down"), %arg14: tensor<48xf32> loc("ln3_g"), %arg15: tensor<48xf32> loc("ln3_b"), %arg16: tensor<48x128xf32> loc("w_out"), %arg17: tensor<32xui8> loc("prompt")) -> (tensor<32x128xf32> {jax.result_info = "result[0]"}, tensor<32xui8> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg17 : (tensor<32xui8>) -> tensor<32xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %c_0 = stablehlo.constant dense<128> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %4 = stablehlo.add %0, %3 : tensor<32xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<32xi1>, tensor<32xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %7 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 48>}> : (tensor<128x48xf32>, tensor<32x1xi32>) -> tensor<32x48xf32>
    %8 = stablehlo.add %7, %arg1 : tensor<32x48xf32>
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
    %27 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %29 = stablehlo.multiply %26, %28 : tensor<32x48xf32>
    %30 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %32 = stablehlo.add %29, %31 : tensor<32x48xf32>
    %33 = stablehlo.dot_general %32, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %34 = stablehlo.reshape %33 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %35 = stablehlo.transpose %34, dims = [1, 0, 2] : (tensor<32x3x16xf32>) -> tensor<3x32x16xf32>
    %36 = stablehlo.dot_general %32, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %37 = stablehlo.reshape %36 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %38 = stablehlo.transpose %37, dims = [1, 0, 2] : (tensor<32x3x16xf32>) -> tensor<3x32x16xf32>
    %39 = stablehlo.dot_general %32, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %40 = stablehlo.reshape %39 : (tensor<32x48xf32>) -> tensor<32x3x16xf32>
    %41 = stablehlo.transpose %40, dims = [1, 0, 2] : (tensor<32x3x16xf32>) -> tensor<3x32x16xf32>
    %42 = stablehlo.transpose %38, dims = [0, 2, 1] : (tensor<3x32x16xf32>) -> tensor<3x16x32xf32>
    %43 = stablehlo.dot_general %35, %42, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x32x16xf32>, tensor<3x16x32xf32>) -> tensor<3x32x32xf32>
    %cst_5 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x32x32xf32>
    %45 = stablehlo.divide %43, %44 : tensor<3x32x32xf32>
    %c_6 = stablehlo.constant dense<true> : tensor<i1>
    %46 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %47 = call @tril(%46) : (tensor<32x32xi1>) -> tensor<32x32xi1>
    %cst_7 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %48 = call @_where(%47, %45, %cst_7) : (tensor<32x32xi1>, tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32x32xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_8) applies stablehlo.maximum across dimensions = [2] : (tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x32xf32>
    %51 = stablehlo.maximum %50, %49 : tensor<3x32xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<3x32xf32>) -> tensor<3x32x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<3x32x1xf32>) -> tensor<3x32x32xf32>
    %54 = stablehlo.subtract %48, %53 : tensor<3x32x32xf32>
    %55 = stablehlo.exponential %54 : tensor<3x32x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.reduce(%55 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<3x32x32xf32>, tensor<f32>) -> tensor<3x32xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<3x32xf32>) -> tensor<3x32x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<3x32x1xf32>) -> tensor<3x32x32xf32>
    %59 = stablehlo.divide %55, %58 : tensor<3x32x32xf32>
    %60 = stablehlo.dot_general %59, %41, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x32x32xf32>, tensor<3x32x16xf32>) -> tensor<3x32x16xf32>
    %61 = stablehlo.transpose %60, dims = [1, 0, 2] : (tensor<3x32x16xf32>) -> tensor<32x3x16xf32>
    %62 = stablehlo.reshape %61 : (tensor<32x3x16xf32>) -> tensor<32x48xf32>
    %63 = stablehlo.dot_general %62, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x48xf32>) -> tensor<32x48xf32>
    %64 = stablehlo.add %8, %63 : tensor<32x48xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.reduce(%64 init: %cst_11) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_12 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %68 = stablehlo.divide %66, %67 : tensor<32x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %70 = stablehlo.subtract %64, %69 : tensor<32x48xf32>
    %71 = stablehlo.multiply %70, %70 : tensor<32x48xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_14 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %75 = stablehlo.divide %73, %74 : tensor<32x1xf32>
    %76 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %77 = stablehlo.subtract %64, %76 : tensor<32x48xf32>
    %cst_15 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %79 = stablehlo.add %75, %78 : tensor<32x1xf32>
    %80 = stablehlo.rsqrt %79 : tensor<32x1xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %82 = stablehlo.multiply %77, %81 : tensor<32x48xf32>
    %83 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %85 = stablehlo.multiply %82, %84 : tensor<32x48xf32>
    %86 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %88 = stablehlo.add %85, %87 : tensor<32x48xf32>
    %89 = stablehlo.dot_general %88, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x96xf32>) -> tensor<32x96xf32>
    %90 = stablehlo.broadcast_in_dim %arg11, dims = [1] : (tensor<96xf32>) -> tensor<1x96xf32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1] : (tensor<1x96xf32>) -> tensor<32x96xf32>
    %92 = stablehlo.add %89, %91 : tensor<32x96xf32>
    %93 = stablehlo.multiply %92, %92 : tensor<32x96xf32>
    %94 = stablehlo.multiply %93, %92 : tensor<32x96xf32>
    %cst_16 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %96 = stablehlo.multiply %95, %94 : tensor<32x96xf32>
    %97 = stablehlo.add %92, %96 : tensor<32x96xf32>
    %cst_17 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %99 = stablehlo.multiply %98, %97 : tensor<32x96xf32>
    %100 = stablehlo.tanh %99 : tensor<32x96xf32>
    %cst_18 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %102 = stablehlo.add %101, %100 : tensor<32x96xf32>
    %cst_19 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<32x96xf32>
    %104 = stablehlo.multiply %103, %102 : tensor<32x96xf32>
    %105 = stablehlo.multiply %92, %104 : tensor<32x96xf32>
    %106 = stablehlo.dot_general %105, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x96xf32>, tensor<96x48xf32>) -> tensor<32x48xf32>
    %107 = stablehlo.add %64, %106 : tensor<32x48xf32>
    %108 = stablehlo.broadcast_in_dim %arg13, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %110 = stablehlo.add %107, %109 : tensor<32x48xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%110 init: %cst_20) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_21 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %113 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %114 = stablehlo.divide %112, %113 : tensor<32x1xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %116 = stablehlo.subtract %110, %115 : tensor<32x48xf32>
    %117 = stablehlo.multiply %116, %116 : tensor<32x48xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.reduce(%117 init: %cst_22) applies stablehlo.add across dimensions = [1] : (tensor<32x48xf32>, tensor<f32>) -> tensor<32xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %cst_23 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %121 = stablehlo.divide %119, %120 : tensor<32x1xf32>
    %122 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %123 = stablehlo.subtract %110, %122 : tensor<32x48xf32>
    %cst_24 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %125 = stablehlo.add %121, %124 : tensor<32x1xf32>
    %126 = stablehlo.rsqrt %125 : tensor<32x1xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x48xf32>
    %128 = stablehlo.multiply %123, %127 : tensor<32x48xf32>
    %129 = stablehlo.broadcast_in_dim %arg14, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %131 = stablehlo.multiply %128, %130 : tensor<32x48xf32>
    %132 = stablehlo.broadcast_in_dim %arg15, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<32x48xf32>
    %134 = stablehlo.add %131, %133 : tensor<32x48xf32>
    %135 = stablehlo.dot_general %134, %arg16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x48xf32>, tensor<48x128xf32>) -> tensor<32x128xf32>
    %136 = call @argmax(%135) : (tensor<32x128xf32>) -> tensor<32xi32>
    %137 = stablehlo.convert %136 : (tensor<32xi32>) -> tensor<32xui8>
    return %135, %137 : tensor<32x128xf32>, tensor<32xui8>
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
