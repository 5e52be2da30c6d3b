//go:build race

package recovery

// raceEnabled says that the race detector makes everything slow.
const raceEnabled = true
