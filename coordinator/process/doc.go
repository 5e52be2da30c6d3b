// Package process is the agent's side of a process of a real program: the link to the
// client inside the process, the page that both share, and every way of taking the memory
// of the process and of giving it back.
//
// The client, written in C or Python, is small: it calls the kernel, copies memory on
// order and waits. All decisions are taken on this side.
//
//	p, err := process.Open(3)
//	p.Welcome(nil)
//	for call := range p.Calls() {
//		p.Answer(process.Answer{Status: process.OK})
//	}
//
// While a call is not answered, the process waits. [Process.Regions], [Process.Fetch],
// [Process.Put], [Process.View] and [Process.Capture] need that.
//
// # Promises
//
//   - A client that breaks the rules of the link ends the link, nothing else. Only memory
//     that the client has announced is read or written.
//   - Capture returns every byte as it was at the time of the call, whatever the process
//     does after the answer.
//   - A system call that the kernel refuses is replaced by another way; [Process.Notes]
//     tells which calls were refused.
package process
