package mpi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	helloMagic = "CKPTMPI\x01" // the last byte is the version
	nonceBytes = 32
	helloBytes = 8 + 4 + 4 + nonceBytes
	welcome    = 'W'
)

// proof is what shows that one end of a connection knows the token. Both ends
// chose a nonce, so it cannot be replayed; role, "dial" or "accept", keeps an
// end from being handed its own proof; the ranks keep a proof for one rank from
// being used with another.
func proof(token []byte, role string, hello, nonce []byte) []byte {
	h := hmac.New(sha256.New, token)
	io.WriteString(h, "ckpt/mpi "+role+"\x00") // a hash takes everything
	h.Write(hello)
	h.Write(nonce)
	return h.Sum(nil)
}

// DialHandshake proves to the other end that we are rank from of this job, and
// that it is rank to.
func DialHandshake(conn net.Conn, token []byte, from, to int) error {
	hello := make([]byte, helloBytes)
	copy(hello, helloMagic)
	binary.LittleEndian.PutUint32(hello[8:], uint32(from))
	binary.LittleEndian.PutUint32(hello[12:], uint32(to))
	rand.Read(hello[16:]) // never fails
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	var answer [nonceBytes + sha256.Size]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	nonce, theirs := answer[:nonceBytes], answer[nonceBytes:]
	if !hmac.Equal(theirs, proof(token, "accept", hello, nonce)) {
		return errRefused
	}
	if _, err := conn.Write(proof(token, "dial", hello, nonce)); err != nil {
		return err
	}
	var last [1]byte
	if _, err := io.ReadFull(conn, last[:]); err != nil {
		return err
	}
	if last[0] != welcome {
		return fmt.Errorf("%w handshake", ErrCorrupt)
	}
	return nil
}

// AcceptHandshake is the other side. It returns the rank that dialled; allowed
// says whether that rank may.
func AcceptHandshake(conn net.Conn, token []byte, me int, allowed func(from int) error) (from int, err error) {
	var hello [helloBytes]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if string(hello[:8]) != helloMagic {
		return 0, errors.New("not a rank of this version")
	}
	if to := le.Uint32(hello[12:]); int64(to) != int64(me) {
		return 0, fmt.Errorf("meant for rank %d", to)
	}
	var nonce [nonceBytes]byte
	rand.Read(nonce[:])
	if _, err := conn.Write(append(nonce[:], proof(token, "accept", hello[:], nonce[:])...)); err != nil {
		return 0, err
	}
	var theirs [sha256.Size]byte
	if _, err := io.ReadFull(conn, theirs[:]); err != nil {
		return 0, err
	}
	if !hmac.Equal(theirs[:], proof(token, "dial", hello[:], nonce[:])) {
		return 0, errRefused
	}
	from = int(le.Uint32(hello[8:]))
	if err := allowed(from); err != nil {
		return 0, err
	}
	_, err = conn.Write([]byte{welcome})
	return from, err
}
