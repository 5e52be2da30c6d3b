// Package iosched decides which of several applications' requests a storage unit
// serves next, after A. Lebre, aIOLi: control, scheduling and regulation of accesses
// to persistent data (2006). It serves nothing itself: whoever has the unit asks
// for the next grants, serves them, and says so.
//
//	c := iosched.NewController("ost-0", policy)
//	err := c.Add(now, &iosched.Request{App: "bt", File: "ckpt", Op: iosched.Write, Bytes: 1 << 20})
//	for {
//		grants, wake := c.Next(now)
//		…                              // serve each, then
//		c.Done(began, now, grants[0])
//	}
//
// The policies are "fifo", "srpt", "rr", "offset", "deadline", "mlf" and "wsjf";
// docs/TURNS.md says how each chooses, with its parameters and where they come from.
//
// # Promises
//
//   - Two requests that overlap, of which one writes, are served in the order in
//     which they came, whatever the policy: a read has what an earlier write wrote,
//     the later of two writes stays, and a write does not overtake a read
//     (TestMachine).
//   - Each byte of each request is granted once, in order (TestMachine).
//   - The same calls at the same times have the same grants (TestRepeatable).
//   - Under mlf a file waits at most for its deadline and one window of each file;
//     under rr and wsjf an application for one quantum of each other, under wsjf
//     after the bound (TestStarvation). Under mlf the oldest request of a file goes
//     first once in each deadline (TestOldRequest).
//   - A request costs no allocation (TestAllocations).
//
// # Turns
//
// An Arbiter decides which application may use a storage unit now. It is a pure machine,
// without goroutines, clock and connections: its owner passes events and the time to Step,
// sends the actions that come back, and calls Step with a Tick at the time that Wake names.
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
// # Numbers of turns
//
// Messages cross on their way. Bursts therefore have numbers that a connection
// uses once, and turns have numbers. A client ignores a Grant, Revoke or Evict
// for a burst that it has ended, and the Arbiter ignores a Release of an older
// turn. The answer to Evict is Release, too, once nothing is under way.
//
// # Policies of turns
//
//   - none: all at once, as without a controller.
//   - fifo: the application that asked first, until its bursts are over. Bursts
//     that join in its first window belong to it; later ones have their own place.
//   - rr: one window each, in a circle.
//   - srpt: the application with the fewest bytes left. It preempts.
//   - mlf: the application that has used the fewest windows in this burst. The
//     first window is a sixteenth of the whole one, and each is twice the last.
//   - wsjf, the default: srpt with an account for each user. The bytes that a
//     user was given more than the others count as if its application still had
//     them to move, over the share of the user. So a user with ten applications
//     gets no more than a user with one while both wait. Two equal bursts of two
//     users still go one after the other: the burst of the first loses as many
//     bytes as its account gains.
//
// srpt and wsjf need the length of a burst, or guess it: a burst that does not
// say, or moves more than it said, is expected to move as much again as it has,
// in powers of two. Where no progress is reported, what was moved is guessed
// from the time of the turn and the rate of the unit.
//
// A policy of turns compares applications, while one of requests cuts bytes into grants: a
// turn goes to many connections at once, which come late, die, stop and come back, and
// whose bursts have unknown lengths.
//
// # Promises of turns
//
//   - One application has turns at a time, whatever the policy but none, beside
//     evicted bursts that have not answered (TestSchedules, TestAnyEvents).
//   - The unit is not free while a burst waits, but for the linger, in which
//     connections that belong to the same burst are expected
//     (TestSchedules, TestPredictIsWorkConserving).
//   - An application whose clients live waits at most
//     MaxWait + n·(Window + Grace) for its next turn beside n−1 others
//     (TestSchedules, TestAnyEvents, TestLongestWait).
//   - A burst does not overtake an earlier one of its application on the same
//     file, unless the client of the earlier one is silent (TestAnyEvents,
//     TestBurstsOnAFileKeepTheirOrder).
//   - The same events at the same times have the same actions.
//
// # Predictions of turns
//
// Predict runs expected bursts through an Arbiter on a virtual clock: the flow
// times under turns, and side by side with policy none.
package iosched
