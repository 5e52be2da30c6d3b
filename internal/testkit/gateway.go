package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Gateway is an object storage on loopback for tests, versitygw.
type Gateway struct {
	Endpoint    string
	Environment []string // that has the credentials
	Data        string   // directory of the buckets
	command     *exec.Cmd
}

// Key and Secret open a Gateway.
const (
	Key    = "ckpt-test"
	Secret = "secret-of-ckpt-tests"
)

// Credentials are the environment of a client.
var Credentials = []string{"AWS_ACCESS_KEY_ID=" + Key, "AWS_SECRET_ACCESS_KEY=" + Secret, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true"}

// StartGateway starts one that keeps its files in dir, with a bucket. End ends it.
func StartGateway(dir, bucket string) (*Gateway, error) {
	g := &Gateway{Data: filepath.Join(dir, "data")}
	sidecar := filepath.Join(dir, "sidecar")
	for _, d := range []string{filepath.Join(g.Data, bucket), sidecar} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil { // it cannot be given a socket
		return nil, err
	}
	g.Endpoint = "http://" + at
	g.Environment = Credentials
	g.command = exec.Command("versitygw", "--port", at, "--quiet", "--keep-alive", "posix", "--sidecar", sidecar, g.Data)
	g.command.Dir = dir
	g.command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Key, "ROOT_SECRET_KEY="+Secret)
	if err := g.command.Start(); err != nil {
		return nil, err
	}
	for range 600 {
		c, err := net.Dial("tcp", at)
		if err == nil {
			return g, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.End()
	return nil, fmt.Errorf("versitygw does not answer at %s", at)
}

// End ends it.
func (g *Gateway) End() {
	_ = g.command.Process.Kill()
	_ = g.command.Wait()
}

// Bucket makes a bucket.
func (g *Gateway) Bucket(name string) error { return os.MkdirAll(filepath.Join(g.Data, name), 0o700) }

// Name is how objectfs names a bucket at an endpoint.
func Name(endpoint, bucket string) string {
	return bucket + ",endpoint=" + strings.ReplaceAll(endpoint, "/", "%2F") + ",region=us-east-1"
}

// URL names a store in a bucket of it.
func (g *Gateway) URL(bucket, prefix string) string { return storeURL(g.Endpoint, bucket, prefix) }

// URL names a store in a bucket behind it.
func (p *Proxy) URL(bucket, prefix string) string { return storeURL(p.Endpoint, bucket, prefix) }

func storeURL(endpoint, bucket, prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&region=us-east-1", bucket, prefix, endpoint)
}
