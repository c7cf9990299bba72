import Crypto
import Encoding
import Foundation
import Subscriptions
import SwiftASN1
import X509

/// Signs OCSP responses.
package protocol RevocationSigner: Sendable {
    var certificate: Certificate { get }
    var signatureAlgorithm: ASN1ObjectIdentifier { get }

    /// - Returns: The signature in DER.
    func signature(for bytes: [UInt8]) throws -> [UInt8]
}

/// DER of a response to an OCSP request (RFC 6960, section 4.2.1), valid unless a test changes it.
package struct RevocationAnswer: Sendable {
    package enum Status: Sendable {
        case good
        case revoked
        case unknown
    }

    let status: Status
    let producedAt: Date
    let thisUpdate: Date
    let nextUpdate: Date?
    let certID: [UInt8]?
    let nonce: [UInt8]?
    let hasNonce: Bool
    let signer: (any RevocationSigner)?
    let certificate: Certificate?

    /// - Parameters:
    ///   - certID: Replaces the value of the request, like `nonce`.
    ///   - signer: Replaces the issuer.
    ///   - certificate: The responder's own certificate, unless the issuer itself signs.
    package init(
        status: Status = .good, producedAt: Date = Date(), thisUpdate: Date = Date(),
        nextUpdate: Date? = Date() + 86_400, certID: [UInt8]? = nil, nonce: [UInt8]? = nil, hasNonce: Bool = true,
        signer: (any RevocationSigner)? = nil, certificate: Certificate? = nil
    ) {
        self.status = status
        self.producedAt = producedAt
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
        self.certID = certID
        self.nonce = nonce
        self.hasNonce = hasNonce
        self.signer = signer
        self.certificate = certificate
    }

    package func der(to request: [UInt8], by issuer: any RevocationSigner) throws -> [UInt8] {
        let request = try Request(request)
        let signer = signer ?? issuer
        let data = try responseData(to: request, by: certificate ?? issuer.certificate)
        let signature = try signer.signature(for: data)
        let basic = try serialized { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                coder.serializeRawBytes(data)
                try coder.appendConstructedNode(identifier: .sequence) { coder in
                    try coder.serialize(signer.signatureAlgorithm)
                }
                try coder.serialize(ASN1BitString(bytes: signature[...]))
                if let certificate {
                    try coder.serialize(explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific) { coder in
                        try coder.serializeSequenceOf([certificate])
                    }
                }
            }
        }
        return try Self.response(status: 0) { coder in
            try coder.serialize(explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific) { coder in
                try coder.appendConstructedNode(identifier: .sequence) { coder in
                    // id-pkix-ocsp-basic
                    try coder.serialize([1, 3, 6, 1, 5, 5, 7, 48, 1, 1] as ASN1ObjectIdentifier)
                    try coder.serialize(ASN1OctetString(contentBytes: basic[...]))
                }
            }
        }
    }

    /// A response that is only a status: 3 is "try later".
    package static func response(
        status: UInt8, _ content: (inout DER.Serializer) throws -> Void = { _ in }
    ) throws -> [UInt8] {
        try serialized { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                coder.appendPrimitiveNode(identifier: .enumerated) { $0.append(status) }
                try content(&coder)
            }
        }
    }

    private func responseData(to request: Request, by responder: Certificate) throws -> [UInt8] {
        try serialized { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.serialize(explicitlyTaggedWithTagNumber: 1, tagClass: .contextSpecific) { coder in
                    try coder.serialize(responder.subject)
                }
                coder.append(producedAt)
                coder.appendConstructedNode(identifier: .sequence) { coder in
                    coder.appendConstructedNode(identifier: .sequence) { coder in
                        coder.serializeRawBytes(certID ?? request.certID)
                        appendStatus(to: &coder)
                        coder.append(thisUpdate)
                        if let nextUpdate {
                            coder.appendConstructedNode(identifier: .tagged(0)) { $0.append(nextUpdate) }
                        }
                    }
                }
                if hasNonce {
                    coder.appendConstructedNode(identifier: .tagged(1)) { coder in
                        coder.serializeRawBytes(nonce ?? request.extensions)
                    }
                }
            }
        }
    }

    private func appendStatus(to coder: inout DER.Serializer) {
        switch status {
        case .good: coder.appendPrimitiveNode(identifier: .tagged(0)) { _ in }
        case .revoked: coder.appendConstructedNode(identifier: .tagged(1)) { $0.append(thisUpdate) }
        case .unknown: coder.appendPrimitiveNode(identifier: .tagged(2)) { _ in }
        }
    }

    /// The parts of a request that its response repeats, as received.
    package struct Request {
        package let certID: [UInt8]
        /// The nonce, as a sequence of extensions.
        package let extensions: [UInt8]

        struct Malformed: Error {}

        package init(_ der: [UInt8]) throws {
            // OCSPRequest > TBSRequest > requestList > Request > CertID, and > [2] > Extensions.
            let tbs = try Self.children(of: try DER.parse(der)).first
            let parts = try Self.children(of: tbs)
            let list = parts.first { $0.identifier == .sequence }
            let certID = try Self.children(of: try Self.children(of: list).first).first
            let extensions = try Self.children(of: parts.first { $0.identifier == .tagged(2) }).first
            guard let certID, let extensions else { throw Malformed() }
            self.certID = Array(certID.encodedBytes)
            self.extensions = Array(extensions.encodedBytes)
        }

        private static func children(of node: ASN1Node?) throws -> [ASN1Node] {
            guard case .constructed(let nodes) = node?.content else { throw Malformed() }
            return Array(nodes)
        }
    }
}

private func serialized(_ write: (inout DER.Serializer) throws -> Void) throws -> [UInt8] {
    var coder = DER.Serializer()
    try write(&coder)
    return coder.serializedBytes
}

extension ASN1Identifier {
    fileprivate static func tagged(_ number: UInt) -> ASN1Identifier {
        ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
    }
}

extension DER.Serializer {
    /// As GeneralizedTime: `20191108081146Z`.
    fileprivate mutating func append(_ date: Date) {
        let instant = Instant(milliseconds: Int64(date.timeIntervalSince1970 * 1000)) ?? .earliest
        let digits = instant.description.utf8.filter { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        appendPrimitiveNode(identifier: .generalizedTime) { bytes in
            bytes.append(contentsOf: digits.prefix(14) + [UInt8(ascii: "Z")])
        }
    }
}
