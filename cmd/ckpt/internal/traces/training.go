package traces

import (
	"strings"

	"ckpt/dataset"
	"ckpt/iotrace/synth"
)

// trainingOf has the built-in trace of deep learning show a workload that trains a network,
// like dl.C.8, if name is one. It returns the name of the trace.
func trainingOf(name string, p *synth.Params) (string, bool) {
	inst, err := dataset.ParseApp(name, 0)
	if err != nil || !strings.HasPrefix(inst.Workload.Kernel, "dl") {
		return name, false
	}
	hidden, inputs, outputs := inst.Params["hidden"], inst.Params["inputs"], inst.Params["outputs"]
	p.Ranks, p.Class, p.Network = inst.NP, "", inst.String()
	p.Sharded = inst.Workload.Kernel == "dlshard"
	rest := inst.Params["parameters"]
	for _, n := range []int64{hidden * inputs, hidden, outputs * hidden, outputs} {
		p.Layers = append(p.Layers, 4*n)
		rest -= n
	}
	if rest > 0 {
		p.Layers = append(p.Layers, 4*rest)
	}
	return "deeplearning", true
}
