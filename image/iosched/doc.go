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
// A [Policy] is one of "fifo", "srpt", "rr", "offset", "deadline", "mlf" and "wsjf".
//
// # Promises
//
//   - Two requests that overlap, of which one writes, are served in the order in
//     which they came, whatever the policy: a read has what an earlier write wrote,
//     the later of two writes stays, and a write does not overtake a read.
//   - Each byte of each request is granted once.
//   - The same calls at the same times have the same grants.
//   - No policy but srpt lets a request wait for ever.
package iosched
