// Command ckpt takes, stores and restarts checkpoints of parallel jobs.
//
// The commands only read flags, call one function of the packages beside it,
// and print; docs/ARCHITECTURE.md shows the house.
package main

import "ckpt/cmd/ckpt/internal/root"

func main() { root.Main() }
