// Package pfs predicts how long a plan of package image/plan takes on storage that
// processes share: it carries the plan out in virtual time, as image/exec does on
// files.
//
//	system, err := pfs.Load("eos-spider2")   // a preset, or a file
//	result, err := pfs.Run(ctx, system, []pfs.Job{{Plan: p, Sync: true}}, pfs.Options{})
//	fmt.Println(result.Jobs[0].Seconds, result.Jobs[0].Bottleneck)
//
// [Sim] is the level below: processes that write and read ranges of files.
//
// A description, a [System], says what hosts, routers, servers and targets can do.
// docs/STORAGE.md explains every field of its YAML.
package pfs
