// Package client holds the sources that a program includes to take checkpoints. They have
// the same small protocol, which package process answers.
package client
