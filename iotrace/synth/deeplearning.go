package synth

import (
	"fmt"
	"slices"
	"time"

	"ckpt/iotrace"
)

// The layers of the model: bytes of each weight and bias, as floats of 4 bytes, for an
// image recogniser with two convolutions and two dense layers (the MNIST example of
// Keras). Adam keeps two moments of each.
var deepLayers = []int64{288 * 4, 32 * 4, 18432 * 4, 64 * 4, 204800 * 4, 128 * 4, 1280 * 4, 10 * 4}

const (
	deepEpochs = 3
	hdfSuper   = 96  // superblock of HDF5, version 0
	hdfHeader  = 272 // object header of a dataset
	hdfHeap    = 544 // node of a group and its heap
)

// deepLearning is the training of a network with a checkpoint after each epoch, which
// only rank 0 writes.
//
// From the thesis (Section 4.3, which has no numbers): MNIST with TensorFlow and
// Keras; one file per epoch, by rank 0; irregular strided requests with backward
// seeks. Filled in from the HDF5 format that Keras writes: every dataset has a header
// in front of its data, which is completed after the data; then the node of its group
// is written again; the superblock comes last. Class A is the network itself; B, C and
// D have 4, 16 and 64 times the weights.
func deepLearning(p Params) *iotrace.Trace {
	name, layers := fmt.Sprintf("mnist.%s.%d", p.Class, p.Ranks), scaledLayers(p.Class)
	if len(p.Layers) > 0 {
		name, layers = p.Network, p.Layers
	}
	s := newScript(name, p)
	for epoch := range deepEpochs {
		if epoch > 0 {
			s.meet(20 * time.Second) // of training
		}
		if !p.Sharded {
			s.hdf(0, fmt.Sprintf("weights-epoch%d.h5", epoch+1), layers)
			continue
		}
		shares := make([]int64, len(layers))
		for i, bytes := range layers {
			shares[i] = (bytes + int64(p.Ranks) - 1) / int64(p.Ranks)
		}
		for rank := range p.Ranks {
			s.hdf(rank, fmt.Sprintf("weights-epoch%d-rank%d.h5", epoch+1, rank), shares)
		}
	}
	return s.finish()
}

// scaledLayers are the layers of a class: the weights grow, the biases do not.
func scaledLayers(class string) []int64 {
	layers := slices.Clone(deepLayers)
	for i := 0; i < len(layers); i += 2 {
		layers[i] *= map[string]int64{"A": 1, "B": 4, "C": 16, "D": 64}[class]
	}
	return layers
}

// hdf has a rank write the weights and their two moments into a file.
func (s *script) hdf(rank int, name string, layers []int64) {
	took := func(size int64) time.Duration {
		return 30*time.Microsecond + time.Duration(float64(size)/200e6*float64(time.Second))
	}
	file := s.file(name)
	write := func(off, size int64) { s.do(rank, iotrace.Write, file, off, size, took(size)) }
	s.do(rank, iotrace.Open, file, iotrace.None, 0, 200*time.Microsecond)
	s.trace.Events[len(s.trace.Events)-1].Create = true
	write(0, hdfSuper)
	at := int64(hdfSuper)
	for group := range 3 { // weights, and the two moments
		node := at
		at += hdfHeap
		for layer, bytes := range layers {
			header := at
			at += hdfHeader
			// HDF5 reserves space for attributes, a different amount for each dataset.
			at += 64 * int64(3+(5*layer+7*group)%11)
			write(at, bytes)
			at += bytes
			write(header, hdfHeader)
			if layer%3 == 2 {
				write(node, hdfHeap)
			}
		}
	}
	write(0, hdfSuper)
	s.do(rank, iotrace.Close, file, iotrace.None, 0, 50*time.Microsecond)
}
