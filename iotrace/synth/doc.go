// Package synth generates I/O traces of known patterns without a program that does the
// I/O. They serve to test the analysis, to measure its speed, and to replay.
//
//	tr, err := synth.Generate(synth.Spec{Pattern: synth.StridedNested, Shared: true,
//		Ranks: 16, Ops: 200, Size: 64 << 10, Noise: 0.05, Seed: 1})
//	tr, err := synth.Builtin("dmtcp", synth.Params{Ranks: 4, Class: "B"})
//
// [Generate] generates any spatial pattern, in separate files or a shared one, with
// uniform or variable requests, in bursts, and with noise: a share of operations
// outside of the pattern. [Builtin] generates the three cases that León (2022)
// describes, from the numbers of the text. Their comments tell what is from the thesis
// and what is filled in.
//
// Promises: the same arguments give the same trace, to the last bit; events are sorted
// by Start; files are opened before use and closed afterwards; a rank does one thing
// at a time.
//
// Sources: B. León Otero, PhD thesis, UAB 2022.
package synth
