package exec_test

import (
	"context"
	"fmt"
	"io"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/vfs/memfs"
)

// Four ranks of 1 MiB on two nodes go into one file; two of them write it.
func ExampleAll() {
	memory := make([][]byte, 4)
	var sources []plan.Source
	for rank := range memory {
		memory[rank] = make([]byte, 1<<20)
		sources = append(sources, plan.Source{Rank: rank, Node: rank / 2, Pieces: []plan.Piece{{Bytes: 1 << 20}}})
	}
	settings := plan.Defaults()
	settings.Layout = plan.Shared
	settings.StripeSize, settings.StripeCount = 256<<10, 2
	settings.Buffer = 1 << 20
	settings.P3 = true
	p, err := plan.New(sources, settings)
	if err != nil {
		fmt.Println(err)
		return
	}

	fsys := memfs.New()
	stats, err := exec.All(context.Background(), p, func(rank, key int) []byte { return memory[rank] }, exec.AllOptions{
		Files: func(int) (io.WriterAt, error) { return fsys.Create("image") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d KiB written, %d KiB of them gathered in %d pulls\n", stats.Bytes>>10, stats.Pulled>>10, stats.Pulls)
	fmt.Printf("%d rounds, %d KiB of buffers\n", stats.Rounds, stats.BufferBytes>>10)
	// Output:
	// 4096 KiB written, 3072 KiB of them gathered in 6 pulls
	// 4 rounds, 4096 KiB of buffers
}
