package synth

import (
	"fmt"
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
	s := newScript(fmt.Sprintf("mnist.%s.%d", p.Class, p.Ranks), p)
	scale := map[string]int64{"A": 1, "B": 4, "C": 16, "D": 64}[p.Class]
	took := func(size int64) time.Duration {
		return 30*time.Microsecond + time.Duration(float64(size)/200e6*float64(time.Second))
	}
	for epoch := range deepEpochs {
		if epoch > 0 {
			s.meet(20 * time.Second) // of training
		}
		file := s.file(fmt.Sprintf("weights-epoch%d.h5", epoch+1))
		write := func(off, size int64) { s.do(0, iotrace.Write, file, off, size, took(size)) }
		s.do(0, iotrace.Open, file, iotrace.None, 0, 200*time.Microsecond)
		s.trace.Events[len(s.trace.Events)-1].Create = true
		write(0, hdfSuper)
		at := int64(hdfSuper)
		for group := range 3 { // weights, and the two moments
			node := at
			at += hdfHeap
			for layer, bytes := range deepLayers {
				header := at
				at += hdfHeader
				// HDF5 reserves space for attributes, a different amount for each
				// dataset.
				at += 64 * int64(3+(5*layer+7*group)%11)
				if layer%2 == 0 {
					bytes *= scale
				}
				write(at, bytes)
				at += bytes
				write(header, hdfHeader)
				if layer%3 == 2 {
					write(node, hdfHeap)
				}
			}
		}
		write(0, hdfSuper)
		s.do(0, iotrace.Close, file, iotrace.None, 0, 50*time.Microsecond)
	}
	return s.finish()
}
