// Package workload runs the benchmarks of Malinowski's thesis on real files: in a cache,
// or plain in the store.
//
//	target := workload.Cached(cache, filecache.Options{Levels: levels, Processes: nodes})
//	plain := workload.Plain(cache.Store, len(nodes), false)
//	result, err := workload.Walk{Iterations: 1000, Size: 1 << 30, Bytes: 512, Steps: 1000}.Run(ctx, target)
//	result, err = workload.Blocks{Requests: 100_000, Bytes: 1024, Write: true}.Run(ctx, target)
//
// Package timing has the same workloads in virtual time.
//
// # Promises
//
//   - A workload leaves the same bytes in every target: processes write to bytes of
//     their own, which lie in all fragments.
//   - Blocks that are read are compared with those that were written.
package workload
