package synth_test

import (
	"fmt"

	"ckpt/iotrace/synth"
)

func ExampleBuiltin() {
	tr, err := synth.Builtin("dmtcp", synth.Params{Ranks: 4, Class: "B"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tr.Job, len(tr.Ranks), len(tr.Files), len(tr.Events), tr.Files[3])
	// Output: bt.B.4 under DMTCP 4 4 836 ckpt_bt.B.4_rank3.dmtcp
}
