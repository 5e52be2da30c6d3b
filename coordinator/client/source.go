package client

import (
	_ "embed" // the sources
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed c/ckpt.h
var header string

// sources has the source for each language.
var sources = map[string]string{
	"c": header,
}

// Languages returns the languages that Source knows, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(sources)) }

// Source returns what a program in the language includes.
func Source(language string) (string, error) {
	text, ok := sources[language]
	if !ok {
		return "", fmt.Errorf("unknown language %q (want %s)", language, strings.Join(Languages(), ", "))
	}
	return text, nil
}
