// Package synth makes I/O traces of known patterns, without a program that does
// the I/O: to test the analysis, to measure its speed, and to replay.
//
//	tr, err := synth.Generate(synth.Spec{Pattern: synth.StridedNested, Shared: true,
//		Ranks: 16, Ops: 200, Size: 64 << 10, Noise: 0.05, Seed: 1})
//	tr, err := synth.Builtin("dmtcp", synth.Params{Ranks: 4, Class: "B"})
//
// [Generate] makes any of the spatial patterns, in files of their own or in a
// shared one, with uniform or variable requests, in bursts, and with noise: a
// share of operations that do not belong to the pattern. [Builtin] makes the
// three cases that León (2022) describes, from the numbers of the text; each
// says in its comment what is from the thesis and what is filled in.
//
// Promises: the same arguments give the same trace, to the last bit; events are
// in the order of Start; every file is opened before it is used and closed
// afterwards; a rank does one thing at a time.
//
// Sources: B. León Otero, PhD thesis, UAB 2022.
package synth
