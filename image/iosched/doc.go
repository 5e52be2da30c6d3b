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
package iosched
