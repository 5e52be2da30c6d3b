package plan_test

import (
	"fmt"

	"ckpt/image/plan"
)

// Two ranks on each of two nodes write one file with two OSTs.
func Example() {
	var sources []plan.Source
	for rank := range 4 {
		sources = append(sources, plan.Source{Rank: rank, Node: rank / 2, Pieces: []plan.Piece{
			{Key: 0, Bytes: 96 << 10, Align: true},
		}})
	}
	settings := plan.Defaults()
	settings.Layout = plan.Shared
	settings.StripeSize, settings.StripeCount = 64<<10, 2
	settings.Buffer = 128 << 10
	p, err := plan.New(sources, settings)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range p.Writers {
		fmt.Println("rank", w.Rank, "writes to OSTs", w.OSTs)
		for round := range p.WriterPlan(w.Rank) {
			for _, g := range round.Gathers {
				if g.Buffer != plan.InPlace {
					fmt.Printf("  pull %d KiB from rank %d\n", g.Bytes>>10, g.From)
				}
			}
			for _, wr := range round.Writes {
				fmt.Printf("  write %d KiB at %d KiB\n", wr.Bytes>>10, wr.Offset>>10)
			}
		}
	}
	// Output:
	// rank 0 writes to OSTs [0]
	//   pull 64 KiB from rank 1
	//   write 64 KiB at 0 KiB
	//   write 64 KiB at 128 KiB
	//   pull 64 KiB from rank 2
	//   pull 64 KiB from rank 3
	//   write 64 KiB at 256 KiB
	//   write 64 KiB at 384 KiB
	// rank 2 writes to OSTs [1]
	//   pull 32 KiB from rank 0
	//   pull 32 KiB from rank 1
	//   pull 32 KiB from rank 3
	//   write 32 KiB at 64 KiB
	//   write 32 KiB at 192 KiB
	//   write 32 KiB at 320 KiB
	//   write 32 KiB at 448 KiB
}
