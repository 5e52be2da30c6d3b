// Package cached serves one node of a cache of files (package filecache) to the daemons of the
// others, on one host or several.
//
//	s, err := cached.Start(ctx, cached.Options{Dir: "/scratch", Dirs: "/nvme/{node}", Nodes: 3, Node: 1})
//	h, err := s.Open(ctx, "map")
//	defer s.Close()
//
//	list, err := cached.Recover(ctx, vfs.OS{}, "/scratch", cached.RecoverOptions{})
//
// Daemons meet in DIR/.ckpt-cache: the file setting has what they agree on and a random token,
// node-K says where the daemon of node K listens. On one host connections are plain and begin
// with a proof of the token, on several they are TLS with a key that both ends make of it.
//
// A node's directory has files, whose content package filecache describes, and lock, which the
// daemon holds.
//
// # Promises
//
//   - Without the token, which the owner of DIR/.ckpt-cache alone can read, nothing is served.
//   - Messages of a kind never wait for the answers that they make possible: each kind has a
//     connection of its own.
//   - A daemon that is lost costs those that wait for it an error, after 10 s at most.
//   - Recover changes nothing unless every node is reached, or its loss is said.
package cached
