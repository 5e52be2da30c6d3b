package app

import (
	"fmt"
	"math"
)

// dl trains a network of one hidden layer with Adam, data parallel: each rank has its own samples
// and computes the gradient of a batch of them, the ranks add up their gradients, and all take
// the same step. Weights and moments are float32, as in the frameworks that it stands for.
//
// In kernel dl every rank has all weights and moments, and they are the same on all. In kernel
// dlshard a rank keeps a share of them (`master`, `moment1`, `moment2`), updates it, and the
// ranks gather the weights from the shares before each batch, as stage 1 of ZeRO does.
//
// Weights lie one layer after the other: inputs to hidden, their bias, hidden to outputs, their
// bias. Parameters that fill no unit of the hidden layer stay zero.
type dl struct {
	a                       *App
	inputs, hidden, outputs int
	samples, batch, steps   int
	n                       int // parameters
	from, to                int // those that this rank updates

	weights, gradient                 []float32
	master, moment1, moment2          []float32 // of the parameters from, from+1, …
	images, activations               []float32
	labels, order                     []int32
	sum                               []float64 // a part of the gradient on its way
	layer1, bias1, layer2, bias2, end int       // where the layers begin
}

// dlAnew are the arrays that an iteration computes from the weights, or that never change.
var dlAnew = []string{"gradient", "activations", "images", "labels", "order"}

const (
	// dlChunk is how many parameters the ranks add up at a time.
	dlChunk = 1 << 16
	// The usual settings of Adam (Kingma and Ba 2015), but for a larger step.
	dlRate, dlBeta1, dlBeta2, dlEpsilon = 3e-3, 0.9, 0.999, 1e-8
)

func newDL(a *App) (kernel, error) { return newTraining(a, "weights", 1) }

func newDLShard(a *App) (kernel, error) { return newTraining(a, "master", a.inst.NP) }

// newTraining makes the kernel whose ranks keep one of so many shares of the parameters, in the
// array master and the moments.
func newTraining(a *App, master string, shares int) (kernel, error) {
	g := &dl{a: a}
	if err := a.params(map[string]*int{"parameters": &g.n, "inputs": &g.inputs, "outputs": &g.outputs,
		"hidden": &g.hidden, "samples": &g.samples, "batch": &g.batch, "steps": &g.steps}); err != nil {
		return nil, err
	}
	g.layer1 = 0
	g.bias1 = g.layer1 + g.hidden*g.inputs
	g.layer2 = g.bias1 + g.hidden
	g.bias2 = g.layer2 + g.outputs*g.hidden
	g.end = g.bias2 + g.outputs
	if min(g.inputs, g.hidden, g.batch, g.steps) < 1 || g.outputs < 2 || g.end > g.n || g.batch*g.steps > g.samples {
		return nil, fmt.Errorf("%d parameters do not hold %d inputs, %d hidden units and %d outputs, or %d samples not %d batches of %d",
			g.n, g.inputs, g.hidden, g.outputs, g.samples, g.steps, g.batch)
	}
	share := (g.n + shares - 1) / shares
	if shares > 1 {
		g.from = min(g.n, a.rank*share)
	}
	g.to = min(g.n, g.from+share)
	g.sum = make([]float64, min(g.n, dlChunk))
	return g, a.claims(want{"weights", g.n, &g.weights}, want{"gradient", g.n, &g.gradient},
		want{master, share, &g.master}, want{"moment1", share, &g.moment1},
		want{"moment2", share, &g.moment2}, want{"images", g.samples * g.inputs, &g.images},
		want{"activations", g.batch * (g.hidden + g.outputs), &g.activations},
		want{"labels", g.samples, &g.labels}, want{"order", g.samples, &g.order})
}

// init makes the samples of this rank: a pattern for each label, and noise.
func (g *dl) init() error {
	for i := range g.samples {
		seed := uint64(g.a.rank)<<40 | uint64(i)<<20
		label := int(mix(seed) % uint64(g.outputs))
		g.labels[i] = int32(label)
		for j := range g.inputs {
			pattern := dice(uint64(label)<<32 | uint64(j))
			g.images[i*g.inputs+j] = float32(0.8*pattern + 0.4*dice(seed+uint64(j)+1))
		}
	}
	g.shuffle(0)
	for i := range g.to - g.from {
		g.master[i] = g.first(g.from + i)
	}
	if g.from > 0 || g.to < g.n {
		for i := range g.n {
			g.weights[i] = g.first(i)
		}
	}
	return nil
}

func (g *dl) first(i int) float32 {
	switch {
	case i < g.bias1:
		return float32(dice(uint64(i)) / math.Sqrt(float64(g.inputs)))
	case g.layer2 <= i && i < g.bias2:
		return float32(dice(uint64(i)) / math.Sqrt(float64(g.hidden)))
	}
	return 0
}

// dice is between -1 and 1.
func dice(seed uint64) float64 { return float64(mix(seed)>>40)/(1<<23) - 1 }

// shuffle puts the samples in the order in which an epoch takes them.
func (g *dl) shuffle(epoch int) {
	for i := range g.order {
		g.order[i] = int32(i)
	}
	for i := len(g.order) - 1; i > 0; i-- {
		j := int(mix(uint64(epoch)<<32|uint64(i)) % uint64(i+1))
		g.order[i], g.order[j] = g.order[j], g.order[i]
	}
}

// recompute finds the order that the epoch of iteration iter has.
func (g *dl) recompute(iter int) { g.shuffle((iter - 1) / g.steps) }

func (g *dl) step(c Comm, iter int) (float64, error) {
	at := (iter - 1) % g.steps
	if at == 0 {
		g.shuffle((iter - 1) / g.steps)
	}
	if err := g.gather(c); err != nil {
		return 0, err
	}
	clear(g.gradient)
	var sum float64
	for k, i := range g.order[at*g.batch : (at+1)*g.batch] {
		out := g.activations[k*(g.hidden+g.outputs):][:g.hidden+g.outputs]
		image := g.images[int(i)*g.inputs:][:g.inputs]
		g.forward(image, out)
		sum += g.backward(image, int(g.labels[i]), out)
	}
	return sum, g.update(c, iter)
}

// gather fills the weights from the shares of all ranks.
func (g *dl) gather(c Comm) error {
	if g.from == 0 && g.to == g.n {
		copy(g.weights, g.master) // the same array, or the only share
		return nil
	}
	return g.chunks(c, func(i int) float64 {
		if i < g.from || i >= g.to {
			return 0
		}
		return float64(g.master[i-g.from])
	}, func(i int, v float64) { g.weights[i] = float32(v) })
}

// chunks adds up a number for each parameter over the ranks, in a fixed order.
func (g *dl) chunks(c Comm, give func(i int) float64, take func(i int, sum float64)) error {
	for lo := 0; lo < g.n; lo += len(g.sum) {
		part := g.sum[:min(len(g.sum), g.n-lo)]
		for i := range part {
			part[i] = give(lo + i)
		}
		if err := c.AllreduceSum(part); err != nil {
			return err
		}
		for i, v := range part {
			take(lo+i, v)
		}
	}
	return nil
}

func (g *dl) forward(image, out []float32) {
	hidden, outputs := out[:g.hidden], out[g.hidden:]
	for h := range hidden {
		z := float64(g.weights[g.bias1+h])
		for j, w := range g.weights[g.layer1+h*g.inputs:][:g.inputs] {
			z += float64(w) * float64(image[j])
		}
		hidden[h] = float32(math.Tanh(z))
	}
	var total float64
	for o := range outputs {
		z := float64(g.weights[g.bias2+o])
		for h, w := range g.weights[g.layer2+o*g.hidden:][:g.hidden] {
			z += float64(w) * float64(hidden[h])
		}
		e := math.Exp(min(z, 30))
		outputs[o] = float32(e)
		total += e
	}
	for o := range outputs {
		outputs[o] = float32(float64(outputs[o]) / total)
	}
}

// backward adds the gradient of a sample, and returns its squared error. The outputs become their
// errors.
func (g *dl) backward(image []float32, label int, out []float32) float64 {
	hidden, outputs := out[:g.hidden], out[g.hidden:]
	outputs[label]--
	var sum float64
	for o, d := range outputs {
		sum += float64(d) * float64(d)
		g.gradient[g.bias2+o] += d
		for h, v := range hidden {
			g.gradient[g.layer2+o*g.hidden+h] += d * v
		}
	}
	for h, v := range hidden {
		var d float64
		for o, e := range outputs {
			d += float64(e) * float64(g.weights[g.layer2+o*g.hidden+h])
		}
		e := float32(d * (1 - float64(v)*float64(v)))
		g.gradient[g.bias1+h] += e
		row := g.gradient[g.layer1+h*g.inputs:][:g.inputs]
		for j, x := range image {
			row[j] += e * x
		}
	}
	return sum
}

// update adds up the gradients of all ranks, and takes a step of Adam with the parameters of this
// rank.
func (g *dl) update(c Comm, iter int) error {
	scale := 1 / float64(g.batch*g.a.inst.NP)
	c1, c2 := 1-math.Pow(dlBeta1, float64(iter)), 1-math.Pow(dlBeta2, float64(iter))
	return g.chunks(c, func(i int) float64 { return float64(g.gradient[i]) }, func(i int, sum float64) {
		g.gradient[i] = float32(sum * scale)
		if i < g.from || i >= g.to {
			return
		}
		d, k := float64(g.gradient[i]), i-g.from
		m := dlBeta1*float64(g.moment1[k]) + (1-dlBeta1)*d
		v := dlBeta2*float64(g.moment2[k]) + (1-dlBeta2)*d*d
		g.moment1[k], g.moment2[k] = float32(m), float32(v)
		g.master[k] -= float32(dlRate * (m / c1) / (math.Sqrt(v/c2) + dlEpsilon))
	})
}
