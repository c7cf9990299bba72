import Crypto
import Encoding
import PlayStore

/// Tells whether an answer says something else than the last one.
enum AnswerDigest {
    /// A SHA-256 that does not depend on the order of the members, nor on the version of the resource.
    static func of(_ body: [UInt8], _ resource: PlayResource) -> [UInt8] {
        var hasher = SHA256()
        hasher.update(data: Array("\(resource.rawValue) ".utf8))
        if let root = try? JSONDocument(body).root {
            let members = root.members.compactMap { member -> (key: String, value: CanonicalJSON)? in
                let key = member.key.repairedString
                return key == "etag" ? nil : (key, CanonicalJSON(member.value))
            }
            hasher.update(data: CanonicalJSON(members: members).utf8)
        } else {
            hasher.update(data: body)
        }
        return Array(hasher.finalize())
    }

    /// That of the answer that nothing will be answered any more.
    static let gone = Array(SHA256.hash(data: Array("gone".utf8)))
}
