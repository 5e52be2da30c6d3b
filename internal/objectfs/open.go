package objectfs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ckpt/internal/vfs"
)

// Mount begins the names of all files in S3: "/s3:/BUCKET,SETTINGS/KEY". They are absolute
// paths of no machine, so that all that joins and splits paths works on them.
const Mount = "/s3:"

// location is what the URL of a store says of its bucket.
type location struct {
	bucket, endpoint, region string
	part                     int64
	connections              int64 // parts under way
}

// Dir returns the name of the directory that a URL "s3://BUCKET/PREFIX?endpoint=…&region=…"
// means. It returns any other name as it is.
func Dir(name string) (string, error) {
	if !strings.HasPrefix(name, "s3:") {
		return name, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return "", fmt.Errorf("the URL cannot be read: %w", errors.Unwrap(err))
	}
	if u.User != nil {
		return "", errors.New("the URL has credentials, which others could read; they belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a file of AWS_PROFILE")
	}
	if u.Host == "" || u.Opaque != "" || u.Fragment != "" {
		return "", errors.New("want s3://BUCKET/PREFIX, for another storage than Amazon's with ?endpoint=https://HOST")
	}
	part := u.Host
	query := u.Query()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range query {
			if !yield(name) {
				return
			}
		}
	}) {
		if len(query[name]) != 1 || query[name][0] == "" {
			return "", fmt.Errorf("the URL has to have one value of %s", name)
		}
		part += "," + name + "=" + strings.NewReplacer("%", "%25", "/", "%2F", ",", "%2C").Replace(query[name][0])
	}
	if _, err := locate(part); err != nil {
		return "", err
	}
	dir := path.Join(Mount, part, u.Path)
	if strings.HasPrefix(path.Clean("/"+u.Path), "/..") || !strings.HasPrefix(dir, Mount+"/"+part) {
		return "", fmt.Errorf("the prefix %s leads out of the bucket", u.Path)
	}
	return dir, nil
}

// locate reads the first part of a name below Mount.
func locate(part string) (*location, error) {
	words := strings.Split(part, ",")
	l := &location{bucket: words[0], part: defaultPart, connections: uploads}
	if l.bucket == "" {
		return nil, errors.New("the bucket is missing")
	}
	for _, word := range words[1:] {
		name, text, _ := strings.Cut(word, "=")
		value, err := url.PathUnescape(text)
		if err != nil {
			return nil, err
		}
		switch name {
		case "endpoint":
			if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
				return nil, errors.New("endpoint is to be the URL of a storage, as https://s3.example.org")
			}
			l.endpoint = value
		case "region":
			l.region = value
		case "part":
			mib, err := strconv.ParseInt(strings.TrimSuffix(value, "MiB"), 10, 64)
			if l.part = mib << 20; err != nil || mib > maxPart>>20 || l.part < minPart {
				return nil, fmt.Errorf("part=%s: want %dMiB to %dMiB", value, minPart>>20, maxPart>>20)
			}
		case "connections":
			if l.connections, err = strconv.ParseInt(value, 10, 64); err != nil || l.connections < 1 || l.connections > maxUploads {
				return nil, fmt.Errorf("connections=%s: want 1 to %d", value, maxUploads)
			}
		default:
			return nil, fmt.Errorf("%s is no setting of an object storage; there are endpoint, region, part and connections", name)
		}
	}
	return l, nil
}

var opened struct {
	mu sync.Mutex
	fs map[string]vfs.FS
}

// Connect returns the bucket that the first part of a name below Mount means.
func Connect(part string) (Bucket, error) {
	b, _, err := connect(part)
	return b, err
}

func connect(part string) (Bucket, *location, error) {
	l, err := locate(part)
	if err != nil {
		return nil, nil, fmt.Errorf("%s/%s: %w", Mount, part, err)
	}
	b, err := openS3(context.Background(), l)
	return b, l, err
}

// Open returns the file system that has a directory below Mount, and the machine's files.
func Open(dir string) (vfs.FS, error) {
	part, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(dir), Mount+"/"), "/")
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if f, ok := opened.fs[part]; ok {
		return f, nil
	}
	b, l, err := connect(part)
	if err != nil {
		return nil, err
	}
	f := New(b, path.Join(Mount, part))
	f.parts(l.part, int(l.connections))
	if opened.fs == nil {
		opened.fs = map[string]vfs.FS{}
	}
	opened.fs[part] = joined{FS: f}
	return opened.fs[part], nil
}
