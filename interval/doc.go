// Package interval computes how many checkpoints a run should take, and when.
//
// Two questions have two answers. A user who accepts an overhead asks how many
// checkpoints it pays for: [Budget]. A user who knows how often the machine fails asks
// which interval loses the least time: [Model]. [Simulation] replays runs with random
// failures, to check the second answer and to replace it where no formula holds.
//
//	b := interval.Budget{Overhead: 0.30, App: app, Checkpoint: ckpt}
//	s, err := b.Schedule() // s.Count checkpoints, one every s.Interval
//
//	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
//	o, err := m.Optimum()  // o.Exact; o.Young and o.Daly for comparison
//	total, err := m.Total(24*time.Hour, o.Exact)
//
// # Symbols
//
//	Ts   work: time of the run without checkpoints and failures
//	δ    Cost: time that the application loses to one checkpoint
//	M    MTBF: mean time between failures of the whole job, not of one node
//	R    Restart: time to read a checkpoint back; failures strike then, too
//	D    Downtime: time until the restart begins; no failures strike
//	τ    interval: time from the end of a checkpoint to the begin of the next
//
// # Budget
//
// The rule of León Otero (thesis, UAB 2022, s. 4.1.3; given by its two examples,
// Tables 4.5 and 4.6, not by a formula): the accepted overhead pays for
// n = floor(overhead·Ts/δ) equal intervals of length (1+overhead)·Ts/n, hence
// for n−1 checkpoints, as one at the very end would protect nothing.
//
// # Formulas
//
// Young (CACM 17(9), 1974, p. 530), first order in δ/M:
//
//	τ = √(2δM)
//
// Daly's higher-order formula (A higher order estimate of the optimum checkpoint
// interval for restart dumps, FGCS 22, 2006, pp. 303–312):
//
//	τ = √(2δM)·[1 + ⅓·√(δ/2M) + ⅑·δ/2M] − δ    for δ < 2M
//
// Daly's expected total time for exponential failures (ibid., without D), which
// is exact for whole intervals that all end with a checkpoint; with a downtime
// as in Hérault, Robert (below):
//
//	T(τ) = (M+D)·e^{R/M}·(e^{(τ+δ)/M} − 1)·Ts/τ
//
// Its exact minimiser, W being Lambert's function; R and D do not move it:
//
//	τ = M·[1 + W(−e^{−1−δ/M})]
//
// First-order waste (Hérault, Robert, Fault-Tolerance Techniques for
// High-Performance Computing, Springer 2015), P = τ+δ being the period, and its
// best period:
//
//	waste = 1 − (1 − δ/P)·(1 − (D + R + P/2)/M)        P = √(2(M−D−R)δ)
//
// # Uncoordinated and semi-coordinated checkpoints
//
// With message logs only the failed process (uncoordinated) or node
// (semi-coordinated) rolls back. The parameters are those of Bosilca et al.,
// Unified model for assessing checkpointing protocols at extreme-scale (CCPE
// 2013, doi:10.1002/cpe.3173): logging slows the work down ([Logging.Slowdown], their 1−λ) by the
// share of the messages that are logged, logs lengthen checkpoints by β seconds
// per second of work ([Logging.Growth]), and what is lost is computed again ρ
// times faster, as messages come from logs ([Logging.Replay]). The other
// processes wait meanwhile: the application is tightly coupled. δ is then the
// time that the application loses to one round of checkpoints, R that of
// restarting one process or node. For exponential failures
//
//	T(τ) = (M+D)·e^{R/M}·[(ρ−1)(e^{τ/ρM} − 1) + e^{τ/ρM + (δ+βτ)/M} − 1]·Ts/((1−s)τ)
//
// is exact: a segment whose frontier has come to x costs R + x/ρ to reach it
// again, and integrating over the frontier gives the first term; a checkpoint
// under way is not replayed faster. ρ = 1, β = s = 0 is Daly's. The bracket is
// convex in τ, so that the minimum is unique; it is found by bisection.
//
// # Promises
//
//   - Quantities out of range are refused with a [*RangeError], which names the
//     quantity and the remedy: no formula is computed outside its range.
//   - The same arguments give the same results on every machine with the same
//     floating-point arithmetic; simulations depend on their seed alone, not on
//     the number of processors.
//   - [Budget.Schedule] is cheap enough to call in the loop of a planner: it
//     neither allocates nor takes a microsecond.
package interval
