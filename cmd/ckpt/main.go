// Command ckpt takes, stores and restarts checkpoints of parallel jobs.
//
// The commands only read flags, call one function of the packages beside it,
// and print; docs/ARCHITECTURE.md shows the house.
package main

import (
	"context"
	"os"

	"ckpt/cmd/ckpt/internal/ui"
)

func main() {
	if os.Getpid() == 1 {
		if status, ok := asProcess1(); ok {
			os.Exit(status)
		}
	}
	os.Exit(run(context.Background(), os.Args[1:], ui.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
