module engram

go 1.22
