/* A heated rod of CELLS cells, divided among the ranks, which never meet: each has the ends
 * of its piece at fixed temperatures. It shows ckpt.hpp with containers that grow.
 *
 *     mpicxx -std=c++17 heat.cpp -o rod && mpiexec -n 4 ./rod CELLS STEPS
 */
#include <mpi.h>
#include "ckpt.hpp"
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Extremes {
    double low, high;
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::size_t cells = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
    const long steps = argc > 2 ? std::atol(argv[2]) : 1000;

    std::vector<double> u(cells), history;
    std::array<double, 2> ends = {1.0 + rank, 0.0};
    Extremes seen = {0, 0};
    double time = 0;
    {
        ckpt::session run(rank, size);
        run.protect("u", u);
        run.protect("rod", time, ends, seen, history);
        for (long step = run.restore(); step < steps; step++) {
            std::vector<double> next(u); /* the memory of u moves in each step */
            for (std::size_t i = 0; i < cells; i++) {
                double left = i > 0 ? u[i - 1] : ends[0], right = i + 1 < cells ? u[i + 1] : ends[1];
                next[i] = u[i] + 0.25 * (left - 2 * u[i] + right);
                if (next[i] > seen.high) seen.high = next[i];
            }
            u.swap(next);
            time += 0.25;
            if (step % 10 == 0) history.push_back(u[0]);
            if (run.boundary(step + 1) == CKPT_STOP) return run.finalize(), MPI_Finalize();
        }
        double sum = 0;
        for (double v : u) sum += v;
        for (double v : history) sum += v;
        sum += time + seen.high;
        std::vector<double> sums(size); /* MPI_Reduce may add in another order on other hosts */
        MPI_Gather(&sum, 1, MPI_DOUBLE, sums.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        sum = 0;
        for (double s : sums) sum += s;
        if (rank == 0) std::printf("%zu records, sum %.17g\n", history.size(), sum);
        std::fflush(stdout);
    } /* the session ends: the program is complete */
    return MPI_Finalize();
}
