// Package image keeps checkpoints of parallel jobs on disk.
package image
