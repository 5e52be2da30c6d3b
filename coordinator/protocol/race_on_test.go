//go:build race

package protocol

// raceEnabled says that the race detector makes everything slower.
const raceEnabled = true
