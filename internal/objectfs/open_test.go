package objectfs_test

import (
	"strings"
	"testing"

	"ckpt/internal/objectfs"
)

// TestConnections: the URL says how many parts are under way at a time.
func TestConnections(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for query, want := range map[string]int{"": 3, "&connections=1": 1, "&part=5MiB&connections=8": 8, "&connections=16": 16} {
		dir, err := objectfs.Dir("s3://bucket/store?endpoint=http://127.0.0.1:1" + query)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := objectfs.Uploads(dir); err != nil || n != want {
			t.Errorf("%q: %d parts, %v; want %d", query, n, err, want)
		}
	}
	for _, value := range []string{"0", "17", "-1", "many"} {
		if _, err := objectfs.Dir("s3://bucket/store?connections=" + value); err == nil || !strings.Contains(err.Error(), "connections="+value+": want 1 to 16") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
