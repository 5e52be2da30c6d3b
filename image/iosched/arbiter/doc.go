// Package arbiter decides which application may use a storage unit now.
//
// An Arbiter is a pure machine. It has no goroutine, no clock and no
// connection: its owner passes events and the time to Step, sends the actions
// that come back, and calls Step with a Tick at the time that Wake names.
//
// # How a turn goes
//
// A client joins with the name of its application and asks for a turn for each
// burst: the bytes that it wants to move now. All bursts of one application
// that wait are granted together, since ranks of a job wait for each other.
// A burst that asks later joins while the window lasts.
// At the end of the window, the policy looks at the others. If one of them goes
// first, the Arbiter revokes the turn: each burst finishes its current
// operation and answers with Release. When all have done so, the next
// application has the turn. A burst that is over says End.
//
// A client that is silent for the length of its lease loses the turn if others
// wait, and so does a burst that does not answer a revocation in time. It is
// evicted: the next application goes on, and the evicted burst waits again.
// The Arbiter cannot stop it; it only knows that two may now be on the unit.
//
// # Numbers
//
// Messages cross on their way. Bursts therefore have numbers that a connection
// uses once, and turns have numbers. A client ignores a Grant, Revoke or Evict
// for a burst that it has ended, and the Arbiter ignores a Release of an older
// turn. The answer to Evict is Release, too, once nothing is under way.
//
// # Predictions
//
// Predict runs expected bursts through an Arbiter on a virtual clock: the flow
// times under turns, and side by side with policy none.
package arbiter
