// Package secure carries the connections of a run over a network: TLS 1.3 between
// processes that know the token of the run.
//
// Each process derives the same Ed25519 key from the token, with HKDF, and signs a
// certificate with it. Both ends of a connection present it, and accept no other key. So
// a process without the token can neither connect nor answer in the place of another, and
// a recorded connection reads as noise: TLS 1.3 agrees on keys that the token does not
// reveal.
//
// # Promises
//
//   - Accept and Dial return only connections whose other end has proved that it knows the token.
//   - Strangers hold at most [MaxUnproven] connections of a listener.
package secure

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"ckpt/coordinator/mpi"
)

// Network is the name of this kind of connection in addresses.
const Network = "tls"

// proofTime is how long either end may take to prove that it knows the token.
const proofTime = 10 * time.Second

// errStranger is the refusal of a certificate that was made of another token.
var errStranger = errors.New("the other end does not belong to this run")

// A Key is what a process derives from the token of its run.
type Key struct{ config *tls.Config }

// NewKey derives the key of a run.
func NewKey(token string) (*Key, error) {
	if token == "" {
		return nil, errors.New("no token of a run")
	}
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "ckpt connection key 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	// The key is what counts. Names and dates of the certificate are not looked at, so that
	// clocks may differ.
	like := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<37, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, like, like, public, private)
	if err != nil {
		return nil, err
	}
	return &Key{&tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // no authority has signed it; VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
		// A ticket would lie unread in a connection whose dialler only writes. Closing that
		// connection would then destroy what is on its way.
		SessionTicketsDisabled: true,
		// Checkpoints are long: whole records from the first byte on.
		DynamicRecordSizingDisabled: true,
	}}, nil
}

// Dial connects to an address of the form HOST:PORT.
func (k *Key) Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, proofTime)
	defer done()
	plain, err := mpi.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Conn{tls.Client(plain, k.config)}
	if err := c.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return c, nil
}
