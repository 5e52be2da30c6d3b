//go:build race

package iotrace

const raceEnabled = true
