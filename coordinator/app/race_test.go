//go:build race

package app

// raceEnabled skips tests of arithmetic alone, ten times slower under the race
// detector and without anything for it to see.
const raceEnabled = true
