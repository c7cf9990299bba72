import Foundation

/// The identity and modification time of a file, to detect that it was changed or replaced. Follows links.
struct FileStamp: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    private let modifiedSeconds: Int
    private let modifiedNanoseconds: Int

    /// All zero for a missing file.
    init(_ path: String) {
        var status = stat()
        let isThere = stat(path, &status) == 0
        device = isThere ? UInt64(status.st_dev) : 0
        inode = isThere ? UInt64(status.st_ino) : 0
        size = isThere ? Int64(status.st_size) : 0
        #if os(Linux)
            modifiedSeconds = isThere ? Int(status.st_mtim.tv_sec) : 0
            modifiedNanoseconds = isThere ? Int(status.st_mtim.tv_nsec) : 0
        #else
            modifiedSeconds = isThere ? Int(status.st_mtimespec.tv_sec) : 0
            modifiedNanoseconds = isThere ? Int(status.st_mtimespec.tv_nsec) : 0
        #endif
    }
}
