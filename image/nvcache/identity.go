package nvcache

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// nodeFile is the file in the directory of a job that says which node it belongs to.
const nodeFile = "node"

// identity is what it says.
type identity struct {
	Job  string `json:"job"`
	Node int    `json:"node"`
}

// claim writes the file that says which node the directory belongs to, if there is none or
// a damaged one.
func (t *Tier) claim(j *image.Job, node int) error {
	err := t.owned(j, node)
	if !unknown(err) {
		return err
	}
	return durable.ReplaceSealed(j.FS(), filepath.Join(j.Dir(), nodeFile), identity{t.name, node})
}

// unknown reports whether an error of owned says that nobody knows.
func unknown(err error) bool {
	damage := (*durable.DamageError)(nil)
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage)
}

// owned checks that the directory belongs to a node.
func (t *Tier) owned(j *image.Job, node int) error {
	var is identity
	if err := durable.ReadSealed(j.FS(), filepath.Join(j.Dir(), nodeFile), 4096, &is); err != nil {
		return err
	}
	if is.Job != t.name || is.Node != node {
		return fmt.Errorf("%w: %s is that of node %d of job %s", ErrOtherNode, j.Dir(), is.Node, is.Job)
	}
	return nil
}
