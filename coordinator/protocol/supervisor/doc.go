// Package supervisor is the protocol of a job whose ranks checkpoint in groups.
package supervisor
