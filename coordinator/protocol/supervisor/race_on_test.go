//go:build race

package supervisor

// raceEnabled says that the race detector makes everything slower.
const raceEnabled = true
