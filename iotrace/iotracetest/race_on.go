//go:build race

package iotracetest

// Race says whether the race detector is there, which makes all slow.
const Race = true
