// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cublas_lt.h"

#include "kernels/error.h"
#include "kernels/shared_library.h"

#include <cstdint>

namespace kernels::cuda {

namespace {

using Status = int;    // cublasStatus_t; 0 is success
using Handle = void *; // cublasLtHandle_t, and those of descriptions
struct Algorithm {     // cublasLtMatmulAlgo_t
    std::uint64_t data[8] = {};
};
struct Heuristic { // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    std::size_t workspaceBytes = 0;
    Status state = 0;
    float waves = 0.0F;
    int reserved[4] = {};
};

constexpr int ComputeFloat = 68;         // CUBLAS_COMPUTE_32F
constexpr int TypeFloat = 0;             // CUDA_R_32F
constexpr int TypeHalf = 2;              // CUDA_R_16F
constexpr int DescriptionTransposeA = 3; // CUBLASLT_MATMUL_DESC_TRANSA
constexpr int Transposed = 1;            // CUBLAS_OP_T
constexpr int PreferenceWorkspace = 1;   // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES

/// A description that is destroyed with the scope.
struct Description {
    Handle handle = nullptr;
    Status (*destroy)(Handle);

    explicit Description(Status (*how)(Handle))
        : destroy(how)
    {
    }
    ~Description()
    {
        if (handle != nullptr)
            destroy(handle);
    }
    Description(const Description &) = delete;
    Description &operator=(const Description &) = delete;
};

void check(Status status, const char *what)
{
    if (status != 0)
        throw Error(ErrorCode::Internal, std::string(what) + " of cuBLASLt failed: status " + std::to_string(status));
}

} // namespace

struct CublasLt::Library {
    SharedLibrary file;
    Handle handle = nullptr;
    Status (*create)(Handle *) = nullptr;
    Status (*destroy)(Handle) = nullptr;
    Status (*makeOperation)(Handle *, int, int) = nullptr;
    Status (*setOperation)(Handle, int, const void *, std::size_t) = nullptr;
    Status (*destroyOperation)(Handle) = nullptr;
    Status (*makeLayout)(Handle *, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
    Status (*destroyLayout)(Handle) = nullptr;
    Status (*makePreference)(Handle *) = nullptr;
    Status (*setPreference)(Handle, int, const void *, std::size_t) = nullptr;
    Status (*destroyPreference)(Handle) = nullptr;
    Status (*choose)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Heuristic *, int *) = nullptr;
    Status (*multiply)(Handle, Handle, const void *, const void *, Handle, const void *, Handle, const void *,
                       const void *, Handle, void *, Handle, const Algorithm *, void *, std::size_t,
                       StreamHandle) = nullptr;

    Library() = default;
    ~Library()
    {
        if (handle != nullptr)
            destroy(handle);
    }
    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;

    [[nodiscard]] bool open(std::span<const std::string> names)
    {
        return file.open("cuBLASLt", names,
                         {
                             {"cublasLtCreate", create},
                             {"cublasLtDestroy", destroy},
                             {"cublasLtMatmulDescCreate", makeOperation},
                             {"cublasLtMatmulDescSetAttribute", setOperation},
                             {"cublasLtMatmulDescDestroy", destroyOperation},
                             {"cublasLtMatrixLayoutCreate", makeLayout},
                             {"cublasLtMatrixLayoutDestroy", destroyLayout},
                             {"cublasLtMatmulPreferenceCreate", makePreference},
                             {"cublasLtMatmulPreferenceSetAttribute", setPreference},
                             {"cublasLtMatmulPreferenceDestroy", destroyPreference},
                             {"cublasLtMatmulAlgoGetHeuristic", choose},
                             {"cublasLtMatmul", multiply},
                         });
    }
};

CublasLt::CublasLt(std::span<const std::string> names)
    : m_library(std::make_unique<Library>())
{
    if (!m_library->open(names))
        throw Error(ErrorCode::NoDevice, m_library->file.problem());
    const Status status = m_library->create(&m_library->handle);
    if (status != 0)
        throw Error(ErrorCode::NoDevice, name() + " did not start: status " + std::to_string(status));
}

CublasLt::~CublasLt() = default;

const std::string &CublasLt::name() const
{
    return m_library->file.name();
}

/// The library counts along columns first: there the weights are [columns, features], x [columns, rows] and the result
/// [features, rows].
void CublasLt::multiply(const DenseProduct &product, void *workspace, StreamHandle stream)
{
    Library &library = *m_library;
    const auto features = static_cast<std::uint64_t>(product.features);
    const auto rows = static_cast<std::uint64_t>(product.rows);
    const auto columns = static_cast<std::uint64_t>(product.columns);
    Description operation(library.destroyOperation);
    Description weights(library.destroyLayout);
    Description x(library.destroyLayout);
    Description out(library.destroyLayout);
    Description preference(library.destroyPreference);
    check(library.makeOperation(&operation.handle, ComputeFloat, TypeFloat), "cublasLtMatmulDescCreate");
    check(library.setOperation(operation.handle, DescriptionTransposeA, &Transposed, sizeof Transposed),
          "cublasLtMatmulDescSetAttribute");
    check(library.makeLayout(&weights.handle, TypeHalf, columns, features, product.columns),
          "cublasLtMatrixLayoutCreate");
    check(library.makeLayout(&x.handle, TypeHalf, columns, rows, product.columns), "cublasLtMatrixLayoutCreate");
    check(library.makeLayout(&out.handle, TypeFloat, features, rows, product.features), "cublasLtMatrixLayoutCreate");
    check(library.makePreference(&preference.handle), "cublasLtMatmulPreferenceCreate");
    const std::uint64_t most = workspaceBytes;
    check(library.setPreference(preference.handle, PreferenceWorkspace, &most, sizeof most),
          "cublasLtMatmulPreferenceSetAttribute");
    Heuristic chosen;
    int found = 0;
    check(library.choose(library.handle, operation.handle, weights.handle, x.handle, out.handle, out.handle,
                         preference.handle, 1, &chosen, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    check(found > 0 ? chosen.state : -1, "cublasLtMatmulAlgoGetHeuristic");
    const float one = 1.0F;
    const float zero = 0.0F;
    check(library.multiply(library.handle, operation.handle, &one, product.weights, weights.handle, product.x, x.handle,
                           &zero, product.out, out.handle, product.out, out.handle, &chosen.algorithm, workspace,
                           workspaceBytes, stream),
          "cublasLtMatmul");
}

} // namespace kernels::cuda
