package objectfs

import (
	"context"
	"path"
	"strings"
)

const (
	MinPart   = minPart
	Abandoned = abandoned
)

// OpenBucket returns the bucket of a URL.
func OpenBucket(url string) (Bucket, error) {
	dir, err := Dir(url)
	if err != nil {
		return nil, err
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(dir), Mount+"/"), "/")
	l, err := locate(part)
	if err != nil {
		return nil, err
	}
	return openS3(context.Background(), l)
}
