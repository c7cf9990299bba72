import Crypto
import Encoding

/// The header of a JWS that uses ES256 and contains its certificates.
struct JWSHeader {
    /// Two or three certificates in DER, leaf first. The third one is ignored.
    let certificates: [[UInt8]]

    /// True if only leaf and intermediate were sent.
    var isShort: Bool { certificates.count == 2 }

    var chainId: ChainID {
        let digests = certificates.prefix(2).flatMap { Array(SHA256.hash(data: $0)) }
        return ChainID(sha256: Array(SHA256.hash(data: digests)))
    }

    /// - Parameter text: base64url.
    init(_ text: ArraySlice<UInt8>) throws(VerificationFailure) {
        guard let bytes = Base64.decode(text, .url), let document = try? JSONDocument(bytes), document.root.isObject
        else { throw .header }
        let root = document.root
        // Checked first: the sender must not choose the algorithm.
        guard root["alg"]?.string == "ES256" else { throw .algorithm }
        guard root["crit"] == nil else { throw .criticalHeader }
        guard let x5c = root["x5c"], x5c.isArray, (2...3).contains(x5c.elements(atMost: 4).count) else {
            throw .certificateCount
        }
        var certificates: [[UInt8]] = []
        for element in x5c.elements {
            guard element.isString, let der = Base64.decode(element.unescapedBytes[...], .standard) else {
                throw .certificateText
            }
            certificates.append(der)
        }
        self.certificates = certificates
    }
}
