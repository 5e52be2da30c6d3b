package recovery_test

import (
	"fmt"
	"os"

	"ckpt/coordinator/recovery"
)

// The domino effect: rank 2 fails and takes everybody back to the beginning.
func Example() {
	line, err := recovery.Find(recovery.Domino(), []int{2}, recovery.Options{InTransit: recovery.Allowed})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := recovery.Text(os.Stdout, line, nil, "rank"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// recovery line after the failure of rank 2
	// messages in transit are replayed
	//
	//                                              checkpoints iterations
	//  rank  resumes from                                 lost       lost
	//     0  the beginning                                   2          2
	//     1  the beginning                                   3          5
	//     2  the beginning                                   2          1
	//   all                                                  7          8
	//
	// domino effect of 5 waves
	//     0  rank 2 failed: to checkpoint 2
	//     1  rank 1 to checkpoint 3: had message 2 of rank 2, unsent now
	//     2  rank 0 to checkpoint 1: had message 2 of rank 1, unsent now
	//     3  rank 1 to checkpoint 1: had message 2 of rank 0, unsent now
	//     4  rank 0 to the beginning: had message 1 of rank 1, unsent now
	//     4  rank 2 to the beginning: had message 1 of rank 1, unsent now
	//     5  rank 1 to the beginning: had message 1 of rank 0, unsent now
}

// A checkpoint on a zigzag cycle is in no recovery line.
func ExampleUseless() {
	h := recovery.Zigzag()
	useless, err := recovery.Useless(h)
	fmt.Println(useless, err)
	line, err := recovery.Find(h, []int{1}, recovery.Options{InTransit: recovery.Allowed})
	if err != nil {
		fmt.Println(err)
		return
	}
	garbage, err := recovery.Collect(h, line.Options)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := recovery.Text(os.Stdout, line, garbage, "rank"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// [{0 1}] <nil>
	// recovery line after the failure of rank 1
	// messages in transit are replayed
	//
	//                                              checkpoints iterations    states
	//  rank  resumes from                                 lost       lost removable
	//     0  the beginning                                   1          2         0
	//     1  checkpoint 1, iteration 0                       0          2         1
	//     2  the beginning                                   1          1         0
	//   all                                                  2          5         1
	//
	// domino effect of 2 waves
	//     0  rank 1 failed: to checkpoint 1
	//     1  rank 2 to the beginning: had message 1 of rank 1, unsent now
	//     2  rank 0 to the beginning: had message 1 of rank 2, unsent now
}
