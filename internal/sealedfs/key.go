package sealedfs

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// KeyName is the file of a sealed store that holds its key, encrypted (age) for all recipients.
const KeyName = "store.age"

// Identity names the variable of the environment that names the file of an identity.
const Identity = "CKPT_IDENTITY"

// IdentityGiven reports whether it does.
func IdentityGiven() bool { return os.Getenv(Identity) != "" }

// The cases of a store that cannot be opened.
var (
	// ErrNoIdentity says that no identity was given.
	ErrNoIdentity = errors.New("the store is sealed, and " + Identity + " names no identity that opens it")
	// ErrOtherStore says that the identity is for other stores.
	ErrOtherStore = errors.New("the file of the identity names other stores, by their keys: somebody may have replaced the key of this one")
)

// A Key seals a store.
type Key struct {
	secret     []byte
	Recipients []string // that can open the store
}

// kept is the plain text of the file of the key.
type kept struct {
	Version    int      `json:"version"`
	Secret     []byte   `json:"key"`
	Recipients []string `json:"recipients"`
}

// NewKey returns a new random key.
func NewKey() *Key {
	k := &Key{secret: make([]byte, 32)}
	rand.Read(k.secret)
	return k
}

// Fingerprint names the key, and does not tell it.
func (k *Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("ckpt store fingerprint 1\n"), k.secret...))
	return fmt.Sprintf("%x", sum[:16])
}

// CheckRecipient says what is wrong with a recipient, if anything.
func CheckRecipient(text string) error {
	_, err := recipient(text)
	return err
}

func recipient(text string) (age.Recipient, error) {
	list, err := age.ParseRecipients(strings.NewReader(text))
	if err == nil && len(list) != 1 {
		err = errors.New("want one")
	}
	if err != nil {
		return nil, fmt.Errorf("%.80q is no recipient of age, as age1…: %w", text, err)
	}
	return list[0], nil
}

// Write writes the key into a store, for its recipients.
func (k *Key) Write(fsys vfs.FS, dir string) error {
	var to []age.Recipient
	for _, text := range k.Recipients {
		r, err := recipient(text)
		if err != nil {
			return err
		}
		to = append(to, r)
	}
	text, err := json.Marshal(kept{1, k.secret, k.Recipients})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("the key of the store cannot be sealed: %w", err)
	}
	return durable.Replace(fsys, filepath.Join(dir, KeyName), b.Bytes())
}

// ReadKey reads the key of a store with the identity that the environment names. It fails with
// ErrNoIdentity without one that opens it.
func ReadKey(fsys vfs.FS, dir string) (*Key, error) {
	name := os.Getenv(Identity)
	if name == "" {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoIdentity)
	}
	ids, known, err := identities(name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, KeyName)
	b, err := durable.ReadFile(fsys, path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &durable.DamageError{File: path, Reason: "the key of the sealed store is missing", Err: err}
	}
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(b), ids...)
	if no := (*age.NoIdentityMatchError)(nil); errors.As(err, &no) {
		return nil, fmt.Errorf("%s: %w; the one in %s does not", dir, ErrNoIdentity, name)
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(r)
	}
	var in kept
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	switch {
	case err != nil:
		return nil, durable.Damaged(path, 0, "the key of the store cannot be read: %v", err)
	case in.Version > 1:
		return nil, durable.Op("read", path, -1, durable.ErrNewerVersion)
	case in.Version != 1 || len(in.Secret) != 32:
		return nil, durable.Damaged(path, 0, "it holds no key of a store")
	}
	k := &Key{in.Secret, in.Recipients}
	if len(known) > 0 && !slices.Contains(known, k.Fingerprint()) {
		return nil, fmt.Errorf("%s: %w", path, ErrOtherStore)
	}
	return k, nil
}

// knownStore begins the lines of a file of an identity that name the keys of its stores. To age
// they are comments.
const knownStore = "# ckpt store:"

// identities reads the file of an identity, and the fingerprints that it names.
func identities(name string) (ids []age.Identity, known []string, err error) {
	if !filepath.IsAbs(name) {
		return nil, nil, fmt.Errorf("%s=%s is no absolute path, and ranks run in other directories", Identity, name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("the identity of %s cannot be read: %w", Identity, err)
	}
	if ids, err = age.ParseIdentities(bytes.NewReader(b)); err != nil {
		// The error of age may show a line.
		return nil, nil, fmt.Errorf("%s, which %s names, has no identity of age; age-keygen -o FILE makes one", name, Identity)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, knownStore); ok {
			known = append(known, strings.Fields(rest)...)
		}
	}
	return ids, known, nil
}
