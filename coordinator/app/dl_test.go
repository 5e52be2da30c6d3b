package app

import (
	"math"
	"testing"
)

// However the optimizer is divided, the training is the same.
func TestShardedTraining(t *testing.T) {
	for _, np := range []int{1, 2, 5} {
		whole := newJob(t, instance(t, "dl.S", np)).init().run(25)
		parts := newJob(t, instance(t, "dlshard.S", np)).init().run(25)
		if got, want := parts.apps[0].Residual(), whole.apps[0].Residual(); got != want {
			t.Errorf("%d ranks: residual %v, with all of the optimizer on each rank %v", np, got, want)
		}
	}
}

// The gradient that the network computes is the slope of its error.
func TestGradient(t *testing.T) {
	j := newJob(t, instance(t, "dl.S", 1)).init()
	g := j.apps[0].kernel.(*dl)
	image, label := g.images[:g.inputs], int(g.labels[0])
	out := g.activations[:g.hidden+g.outputs]
	loss := func() float64 {
		g.forward(image, out)
		return -math.Log(float64(out[g.hidden+label]))
	}
	for _, at := range []int{g.layer1, g.layer1 + 70, g.bias1 + 3, g.layer2 + 5, g.bias2 + label, g.end - 1} {
		clear(g.gradient)
		g.forward(image, out)
		g.backward(image, label, out)
		const h = 1e-2
		w := g.weights[at]
		g.weights[at] = w + h
		above := loss()
		g.weights[at] = w - h
		below := loss()
		g.weights[at] = w
		want, got := (above-below)/(2*h), float64(g.gradient[at])
		if diff := got - want; diff > 1e-3 || diff < -1e-3 {
			t.Errorf("parameter %d: gradient %v, slope %v", at, got, want)
		}
	}
}
