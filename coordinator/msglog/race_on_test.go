//go:build race

package msglog

// raceEnabled says that the race detector makes everything slow.
const raceEnabled = true
