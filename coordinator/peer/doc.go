// Package peer is what the processes of a run serve each other directly, past the
// coordinator: the files of a node's directory of the tier, and the parity that a node
// holds for others.
//
//	s, err := peer.Serve(self, peer.Served{FS: fsys, Dir: "/nvme/0", Job: "a"})
//	…
//	c := peer.NewClient(self, peer.Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: "/nvme/0", Job: "a"})
//	f, err := c.FS(ctx).Create("/nvme/0/jobs/a/0001/rank-3.img")
//
// A connection begins with the handshake of package mpi, on several hosts within TLS. Then
// it carries requests, several at a time, and answers in any order (see frame.go).
//
// # Promises
//
//   - A process that does not know the token of the run is served nothing.
//   - No name leads out of the directory of the job.
//   - Errors of the other side are what they were there: errors.Is and errors.As agree.
//   - A request ends when the peer dies, when it gives no sign of life for the silence limit,
//     or when its context does.
//   - A connection takes at most 16 MiB on either side.
package peer
