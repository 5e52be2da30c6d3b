// Package predict says how large a checkpoint will be and how long it will
// take, before the job has run, and how sure it is.
package predict
