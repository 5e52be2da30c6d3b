package coordinator

import (
	"net"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/internal/testkit"
)

func TestListenAddress(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := net.LookupHost("localhost"); err != nil {
		testkit.Skip(t, "an address of localhost")
	}
	for listen, want := range map[string]string{
		"127.0.0.1":          "127.0.0.1:0",
		"127.0.0.1:0":        "127.0.0.1:0",
		"::1":                "[::1]:0",
		"[::1]":              "[::1]:0",
		"0.0.0.0":            "only one",
		"[::]:7000":          "only one",
		":7000":              "no address that other hosts can be told",
		"localhost":          "loopback interface",
		"no-such-host.test.": "no address here",
		"192.0.2.1":          "cannot assign requested address",
		"127.0.0.1:seven":    "seven",
		busy.Addr().String(): "address already in use",
	} {
		got, err := launch.ListenAddress(listen)
		if err != nil {
			if _, ok := err.(*job.UsageError); !ok {
				t.Errorf("%s: %T", listen, err)
			}
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
